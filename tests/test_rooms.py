"""The rooms of the house: each imports from its left and from the shared floor, never from its right."""

from __future__ import annotations

import ast
from pathlib import Path

import bonafide

ROOMS = [
    ["errors", "stopping", "unspaced"],
    ["files"],
    ["sealed"],
    ["examples"],
    ["solutions", "arrays", "attention", "ragged", "replay", "rendering", "pretrained", "documents"],
    ["encoders"],
    ["tasks"],
    ["search", "retrieve"],
    ["reconstruct"],
    ["evaluate"],
    ["learn"],
    ["synth"],
    ["recipes"],
    ["report"],
    ["web", "own"],
    ["serve", "reward", "select", "reproduce"],
    ["explore"],
    ["cli"],
    ["__main__"],
]
PLACE = {name: place for place, names in enumerate(ROOMS) for name in names}
ROOT = Path(bonafide.__file__).parent


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports from bonafide in full"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("bonafide.")}
    return rooms - {"__version__"}


def test_rooms_import_only_from_their_left():
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        assert room in PLACE, f"{path} is in no room: give it a place in this test"
        for other in imported_rooms(path):
            assert other in PLACE, f"{path} imports bonafide.{other}, which is in no room"
            if other != room and PLACE[other] >= PLACE[room]:
                wrong.append(f"{path.relative_to(ROOT)} imports bonafide.{other}")
    assert not wrong


def test_tasks_do_not_know_each_other():
    for path in (ROOT / "tasks").rglob("*.py"):
        task = path.relative_to(ROOT / "tasks").parts[0]
        text = path.read_text()
        for other in (folder.name for folder in (ROOT / "tasks").iterdir() if folder.is_dir()):
            assert other == task or f"bonafide.tasks.{other}" not in text, f"{path} imports the task {other}"
