"""Check what would be published: the sdist and the wheel in a folder, the wheel installed and used.

Usage: python tools/check_package.py dist

The wheel goes into an environment of its own, without the source tree. Its dependencies are those of the environment
that runs this, which were installed already: torch and all that comes with it are not downloaded again.
"""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

SOURCE = Path(__file__).parents[1] / "src"
KNOWN = {".py", ".typed", ".md", ".toml", ".html", ".css", ".js", ".svg", ".png"}
"""What our files are. Data, weights and caches have other endings, and are refused without being named."""
NAMES = {"LICENSE", "Makefile", "PKG-INFO", ".gitignore"}
LARGEST = 2**20
USED = """
from importlib import resources
from pathlib import Path
import bonafide, sys
from bonafide.learn.recipe import named_recipes, read_recipe
from bonafide.explore import pages
from bonafide.serve import application
package = Path(bonafide.__file__).parent
assert package.is_relative_to(sys.prefix), f"imported from {package}, not from the wheel"
recipes = named_recipes()
assert recipes
for name in recipes:
    read_recipe(name)
for room in ("explore", "serve", "web"):
    for kind in ("templates", "assets"):
        assert list((package / room / kind).iterdir()), f"no {kind} in {room}"
"""


def check_sdist(path: Path) -> None:
    """Nothing but our own text and pictures, none of it large."""
    with tarfile.open(path) as archive:
        _check_files({member.name.partition("/")[2]: member.size for member in archive if not member.isdir()}, path)


def check_wheel(path: Path, source: Path = SOURCE) -> None:
    """Everything of the package, and nothing else."""
    with zipfile.ZipFile(path) as archive:
        sizes = {each.filename: each.file_size for each in archive.infolist() if not each.is_dir()}
    held = {name for name in sizes if ".dist-info/" not in name}
    _check_files({name: sizes[name] for name in held}, path)
    wanted = {
        each.relative_to(source).as_posix()
        for each in (source / "bonafide").rglob("*")
        if each.is_file() and "__pycache__" not in each.parts
    }
    if held != wanted:
        raise SystemExit(f"{path}: missing {_named(wanted - held)}; not of the package: {_named(held - wanted)}.")


def check_installed(wheel: Path) -> None:
    """The wheel in an environment of its own: its requirements, its commands, its data."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place / "clean")
        python = str(place / "clean" / "bin" / "python")
        pip = (sys.executable, "-m", "pip", "--python", python)
        _run(place, *pip, "install", "--quiet", "--no-deps", str(wheel.resolve()))
        packages = _run(place, python, "-c", "import site; print(site.getsitepackages()[0])").strip()
        (Path(packages) / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
        bonafide = str(place / "clean" / "bin" / "bonafide")
        _run(place, *pip, "check")
        _run(place, python, "-c", USED)
        _run(place, bonafide, "--help")
        _search(place, bonafide)


def _search(place: Path, bonafide: str) -> None:
    (place / "sales.csv").write_text("City,Units\nOslo,3\nLyon,1\n")
    (place / "pairs.jsonl").write_text('{"id": "q1", "question": "how many units in Oslo?", "answers": [3]}\n')
    command = ["search", "sql", "--table", "sales.csv", "--examples", "pairs.jsonl", "--out", "solutions"]
    _run(place, bonafide, *command)
    solutions = [
        json.loads(line)["sql"] for line in _run(place, bonafide, "inspect", "solutions", "--list").splitlines()
    ]
    if 'SELECT "Units" FROM "sales" WHERE "City" = ? COLLATE NOCASE' not in solutions:
        raise SystemExit(f"The installed wheel searched and did not find the query; found {solutions}.")


def _run(place: Path, *command: str) -> str:
    """What a command prints, away from the source tree."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=place, env=kept, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _check_files(sizes: dict[str, int], archive: Path) -> None:
    strange = {
        name for name in sizes if PurePosixPath(name).suffix not in KNOWN and PurePosixPath(name).name not in NAMES
    }
    if strange:
        raise SystemExit(f"{archive}: expected {', '.join(sorted(KNOWN))}; found {_named(strange)}.")
    if large := {name for name, size in sizes.items() if size > LARGEST}:
        raise SystemExit(f"{archive}: expected files of at most a mebibyte; larger are {_named(large)}.")


def _named(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)[:8]) or "nothing"


def main(folder: Path) -> None:
    """Check the one sdist and the one wheel of a folder."""
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    check_sdist(sdist)
    check_wheel(wheel)
    check_installed(wheel)
    print(f"{sdist.name} and {wheel.name} hold what they should, and the wheel works on its own.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
