"""What a release is checked by: the checks themselves find what they are for."""

from __future__ import annotations

import io
import json
import re
import stat
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from by_path import ROOT, module_at


def tool(name: str) -> ModuleType:
    return module_at(f"tools/{name}.py")


def write_sdist(path: Path, files: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"bonafide-1/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_an_sdist_of_text_passes(tmp_path):
    files = {"src/bonafide/__init__.py": b"", "README.md": b"", "LICENSE": b"", "docs/images/a.png": b"x" * 1000}
    tool("check_package").check_sdist(write_sdist(tmp_path / "a.tar.gz", files))


@pytest.mark.parametrize(
    "name",
    ["tests/data/train.jsonl", "model/solver.safetensors", "src/bonafide/__pycache__/a.pyc", ".hypothesis/x/y",
     "solutions/shard-00000.parquet", ".coverage", "tests/.pytest_cache/CACHEDIR.TAG"],
)  # fmt: skip
def test_data_weights_and_caches_in_an_sdist_are_found(tmp_path, name):
    with pytest.raises(SystemExit, match=re.escape(name)):
        tool("check_package").check_sdist(write_sdist(tmp_path / "a.tar.gz", {"README.md": b"", name: b""}))


def test_a_large_file_in_an_sdist_is_found(tmp_path):
    with pytest.raises(SystemExit, match=r"larger are tests/table\.py"):
        tool("check_package").check_sdist(write_sdist(tmp_path / "a.tar.gz", {"tests/table.py": b" " * 2**21}))


@pytest.mark.parametrize(
    ("change", "said"),
    [({"bonafide/page.html": None}, r"missing bonafide/page\.html"), ({"tests/test_a.py": b""}, r"tests/test_a\.py")],
)
def test_a_wheel_holds_the_whole_package_and_nothing_else(tmp_path, change, said):
    source = {"bonafide/__init__.py": b"", "bonafide/page.html": b"<p>"}
    for name, content in source.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)

    def wheel(files: Mapping[str, bytes | None]) -> Path:
        with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
            for name, content in {**files, "bonafide-1.dist-info/RECORD": b""}.items():
                if content is not None:
                    archive.writestr(name, content)
        return tmp_path / "a.whl"

    check = tool("check_package").check_wheel
    check(wheel(source), tmp_path)
    with pytest.raises(SystemExit, match=said):
        check(wheel({**source, **change}), tmp_path)


def test_every_dependency_has_a_minimum():
    lowest = list(tool("lowest_versions").lowest_versions(ROOT / "pyproject.toml"))
    assert {"torch==2.11", "transformers==5.17"} <= set(lowest)
    assert len(lowest) > 20


@pytest.mark.parametrize(("dependency", "said"), [("numpy", "no minimum"), ("numpy<3", "no minimum")])
def test_a_dependency_without_a_minimum_is_found(tmp_path, dependency, said):
    project = tmp_path / "pyproject.toml"
    project.write_text(f'[project]\ndependencies = ["{dependency}"]\noptional-dependencies = {{}}\n')
    with pytest.raises(SystemExit, match=said):
        list(tool("lowest_versions").lowest_versions(project))


def test_the_tests_with_the_lowest_versions_exist():
    listed = re.search(r"^LOWEST := (.*?[^\\])$", (ROOT / "Makefile").read_text(), re.MULTILINE | re.DOTALL).group(1)
    names = listed.replace("\\", " ").split()
    assert len(names) > 10
    assert all((ROOT / "tests" / f"test_{name}.py").exists() for name in names)


class Answering:
    """A command in the place of pip-audit, which answers for each package that it is asked about."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "pip-audit"

    def says(self, code: int, answer: str) -> list[str]:
        """``answer`` is an expression over the list ``asked`` of [name, version]."""
        self.path.write_text(
            f"#!{sys.executable}\nimport json, sys\nfrom pathlib import Path\n"
            "listed = Path(sys.argv[sys.argv.index('--requirement') + 1]).read_text().split()\n"
            f"asked = [each.split('==') for each in listed]\n{answer}\nsys.exit({code})\n"
        )
        self.path.chmod(self.path.stat().st_mode | stat.S_IEXEC)
        return [str(self.path)]


def dependencies(each: str) -> str:
    return f"print(json.dumps({{'dependencies': [{each} for name, version in asked]}}))"


SOUND = "{'name': name, 'version': version, 'vulns': []}"
KNOWN: dict[str, Any] = {"id": "PYSEC-1", "fix_versions": ["9.9"]}


def test_an_audit_passes_only_where_every_package_was_checked(tmp_path, capsys):
    assert tool("audit").audit(Answering(tmp_path).says(0, dependencies(SOUND))) == 0
    assert re.search(r"(\d+) of \1 packages were checked; 0 are known", capsys.readouterr().out)


def test_an_audit_names_what_is_vulnerable(tmp_path, capsys):
    answer = dependencies(f"{{**{SOUND}, 'vulns': [{json.dumps(KNOWN)}] if name == 'torch' else []}}")
    assert tool("audit").audit(Answering(tmp_path).says(1, answer)) == 1
    assert re.search(r"^torch [\d.]+: PYSEC-1, mended in 9\.9$", capsys.readouterr().out, re.MULTILINE)


def test_what_pip_audit_skips_is_not_taken_for_sound(tmp_path, capsys):
    answer = dependencies(f"{SOUND} if name != 'numpy' else {{'name': name, 'skip_reason': 'not found'}}")
    assert tool("audit").audit(Answering(tmp_path).says(0, answer)) == 3
    assert "Not checked: numpy." in capsys.readouterr().out


def test_an_audit_without_the_service_says_that_nothing_was_checked(tmp_path, capsys):
    answer = "print('requests.ConnectionError: cannot resolve the host', file=sys.stderr)"
    assert tool("audit").audit(Answering(tmp_path).says(1, answer)) == 3
    said = capsys.readouterr().out
    assert said.startswith("Nothing was checked: ")
    assert "cannot resolve the host" in said


def test_an_audit_asks_about_versions_that_advisories_know():
    installed = tool("audit").installed()
    assert any(re.fullmatch(r"torch==[\d.]+", each) for each in installed)
    assert not any(each.startswith("bonafide==") or "+" in each for each in installed)
