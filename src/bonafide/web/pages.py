"""Templates and assets of the web apps, read from the package once: no request names a file.

A template escapes everything that is put into it. Besides ``bonafide.web`` an app may bring templates and assets of its
own, in folders of these names in its package, and use those of another app.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".png": "image/png"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that pages refer to."""

    content: bytes
    kind: str
    tag: str


def environment(*packages: str) -> Environment:
    """Jinja2 with escaping on; the templates of the first package come first, those that all apps share come last."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(each) for each in (*packages, "bonafide.web")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def assets(*packages: str) -> dict[str, Asset]:
    """Every file of the ``assets`` folders, by name; those of the first package come over the others."""
    found = {}
    for each in ("bonafide.web", *reversed(packages)):
        folder = files(each) / "assets"
        if not folder.is_dir():
            continue
        for entry in folder.iterdir():
            kind = _KINDS.get(f".{entry.name.rpartition('.')[2]}")
            if kind is not None:
                content = entry.read_bytes()
                found[entry.name] = Asset(content, kind, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return found


ENVIRONMENT = environment()
