"""The lowest versions that pyproject.toml allows, as constraints for pip: ``make test-lowest`` tests with these.

Usage: python tools/lowest_versions.py pyproject.toml > constraints.txt
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement


def lowest_versions(project: Path) -> Iterator[str]:
    """One ``name==version`` for each dependency, of extras too; one that declares no minimum is an error."""
    declared = tomllib.loads(project.read_text())["project"]
    listed = [
        *declared["dependencies"],
        *(each for extra in declared["optional-dependencies"].values() for each in extra),
    ]
    lowest: dict[str, str] = {}
    for requirement in map(Requirement, listed):
        minimums = [each.version for each in requirement.specifier if each.operator in (">=", "==")]
        if len(minimums) != 1:
            raise SystemExit(f"{project}: {requirement} declares no minimum. Write it as name>=version.")
        if lowest.setdefault(requirement.name, minimums[0]) != minimums[0]:
            raise SystemExit(
                f"{project}: {requirement.name} has two minimums, {lowest[requirement.name]} and {minimums[0]}."
            )
    return (f"{name}=={version}" for name, version in sorted(lowest.items()))


if __name__ == "__main__":
    print(*lowest_versions(Path(sys.argv[1])), sep="\n")
