"""Scripts that are written without spaces between words: there each character is a token of its own.

They are Han, kana, Thai, Lao, Khmer and Burmese, by the blocks of Unicode; signs and digits lie in these blocks too.
"""

from __future__ import annotations

UNSPACED = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3040, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip
"""The first and the last code point of each block."""

UNSPACED_CLASS = "".join(f"{chr(low)}-{chr(high)}" for low, high in UNSPACED)
"""The inside of a character class for them."""
