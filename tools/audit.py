"""Known vulnerabilities of everything that is installed: ``make audit``, before a release.

Usage: python tools/audit.py path/to/pip-audit

Exit codes: 0, all were checked and none is known to be vulnerable; 1, some are; 3, not all could be checked. pip-audit
itself passes what it cannot look up, as behind a proxy that knows the packages and not the advisories.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

FOUND, NOT_CHECKED = 1, 3


def installed() -> list[str]:
    """``name==version`` of each package but our own; +cpu and such are dropped, as advisories do not know them."""
    versions = {each.metadata["Name"]: each.version.partition("+")[0] for each in distributions()}
    return sorted(f"{name}=={version}" for name, version in versions.items() if name != "bonafide")


def audit(command: Sequence[str]) -> int:
    """Ask the advisory service about every package, and say what it answered."""
    packages = installed()
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "requirements.txt"
        listed.write_text("\n".join(packages) + "\n")
        options = ["--requirement", str(listed), "--no-deps", "--disable-pip", "--format", "json"]
        done = subprocess.run(
            [*command, *options, "--progress-spinner", "off"], capture_output=True, text=True, check=False
        )
    try:
        answers = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        print(f"Nothing was checked: the advisory service could not be asked. pip-audit said: {said}")
        print("Run make audit where https://pypi.org can be reached.")
        return NOT_CHECKED
    return _report(answers, len(packages))


def _report(answers: list[dict[str, Any]], asked: int) -> int:
    checked = [each for each in answers if "skip_reason" not in each]
    vulnerable = [each for each in checked if each["vulns"]]
    for each in vulnerable:
        for known in each["vulns"]:
            mended = ", ".join(known["fix_versions"]) or "no version yet"
            print(f"{each['name']} {each['version']}: {known['id']}, mended in {mended}")
    print(f"{len(checked)} of {asked} packages were checked; {len(vulnerable)} are known to be vulnerable.")
    if len(checked) < asked:
        missed = sorted(each["name"] for each in answers if "skip_reason" in each)
        print(f"Not checked: {', '.join(missed[:10])}{' and more' if len(missed) > 10 else ''}.")
        print("The advisory service cannot be reached, or does not know them.")
        print("Run make audit where https://pypi.org can be reached.")
    return FOUND if vulnerable else NOT_CHECKED if len(checked) < asked else 0


if __name__ == "__main__":
    sys.exit(audit(sys.argv[1:]))
