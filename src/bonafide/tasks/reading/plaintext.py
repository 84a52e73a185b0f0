"""Plain text and Markdown files as documents.

Paragraphs are what blank lines separate; lines of one paragraph are joined by a space. Of Markdown, the marks of
headings, lists, quotes, emphasis, code and links are taken away and their text stays; its first heading is the title.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from bonafide.documents import Document
from bonafide.errors import BonafideError
from bonafide.files import bare_name, read_text

_MARKDOWN = {".md", ".markdown"}
_FRONT_MATTER = re.compile(r"\A---\n(?=\S[^\n]*:).*?\n---(?:\n|\Z)", re.DOTALL)  # else --- is a rule
_BLOCK_MARK = re.compile(r"\s{0,3}(?:#{1,6}\s+|>\s?|[-*+]\s+|\d{1,9}[.)]\s+)")
_NUMBERED = re.compile(r"\s{0,3}(\d{1,9})[.)]\s+")
_INLINE = (
    (re.compile(r"<!--.*?-->"), ""),
    (re.compile(r"!?\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1"), r"\2"),
    (re.compile(r"(?<!\w)([*_])(?=\S)(.+?)(?<=\S)\1(?!\w)"), r"\2"),
    (re.compile(r"`([^`]+)`"), r"\1"),
)


def read_document(path: Path) -> Document:
    """The document of a text or Markdown file (UTF-8, perhaps compressed), named by its file."""
    text = read_text(path)
    name = bare_name(path)
    suffixes = {suffix.lower() for suffix in path.suffixes}
    title, blocks = _markdown(text) if suffixes & _MARKDOWN else (None, list(_blocks(text.splitlines())))
    paragraphs = tuple(joined for block in blocks if (joined := " ".join(line.strip() for line in block).strip()))
    if not paragraphs:
        raise BonafideError(f"{path} holds no text: the document is empty.")
    return Document(name, title, paragraphs)


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []


def _markdown(text: str) -> tuple[str | None, list[list[str]]]:
    title: str | None = None
    lines: list[str] = []
    fenced = False
    item: int | None = None  # the number of the item that the lines before are of; 0 for one without
    for line in _FRONT_MATTER.sub("", text).split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
            lines.append("")
            continue
        mark = None if fenced else _BLOCK_MARK.match(line)
        numbered = _NUMBERED.match(line)
        number = None if numbered is None else int(numbered[1])
        if not (goes_on := bool(lines and lines[-1].strip())):
            item = None
        another = item is not None and (not line[:1].isspace() or number == item + 1)
        wrapped = goes_on and number not in (None, 1) and not another  # a year begins the line
        if mark is None or wrapped:
            lines.append(line if fenced else _inline(line))
            continue
        rest = _inline(line[mark.end() :])
        if mark.group().lstrip().startswith("#"):
            title = title or rest.strip()
            lines += ["", rest, ""]
        elif mark.group().lstrip().startswith(">"):
            lines.append(rest)
        else:
            item = number or 0
            lines += ["", rest]  # each item of a list is a paragraph
    return title, list(_blocks(lines))


def _inline(line: str) -> str:
    for pattern, replacement in _INLINE:
        line = pattern.sub(replacement, line)
    return line
