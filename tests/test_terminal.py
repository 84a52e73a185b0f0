"""What the terminal shows of answers."""

from __future__ import annotations

from bonafide.report.terminal import _shown, few, harmless


def test_long_answers_say_how_long_they_are() -> None:
    assert few(["a", "b"]) == "a, b"
    assert few([str(each) for each in range(60)]) == "0, 1, 2, 3, 4, 5, 6, 7, … (60)"
    assert [_shown(each) for each in (16777217.0, 18011786.5, 0.1 + 0.2, None, "x")] == [
        "16777217", "18011786.5", "0.3", "NULL", "x",
    ]  # fmt: skip


def test_control_is_not_shown_and_the_joiners_of_scripts_are() -> None:
    assert harmless("\x1b[2J\u202eabc\r") == "�[2J�abc�"
    assert harmless("می\u200cخواهم 👨\u200d👩\n") == "می\u200cخواهم 👨\u200d👩\n"
