"""The reconstructor as a reward: TRL's signature, None where it cannot judge, 0 for another answer, support else."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from bonafide import reward
from bonafide.errors import BonafideError
from bonafide.examples import write_jsonl
from bonafide.learn.recipe import recipe_from
from bonafide.learn.saved import load
from bonafide.learn.text import rendered_texts
from bonafide.learn.trainer import train
from bonafide.reconstruct.layout import tokenise
from bonafide.search.text import import_candidates
from bonafide.synth.candidates import generate_candidates
from bonafide.tasks.text.words import words

torch.set_num_threads(1)
QUESTION = "Ada has 12 apples. Ada buys 7 more. How many apples does Ada have now?"
SIMPLICITY = 0.25


def trained(root: Path, method: str, options: dict[str, float]) -> Path:
    if not (root / "train").exists():
        write_jsonl(root / "candidates.jsonl", generate_candidates(12, 1, 0.5, 4))
        import_candidates(root / "candidates.jsonl", root / "train")
    recipe = recipe_from(
        {
            "data": {"task": "text", "root": str(root), "solutions": str(root / "train/solutions")},
            "solver": {"encoder": "scratch", "layers": 1, "width": 16, "heads": 2},
            "reconstructor": {"layers": 1, "width": 16, "heads": 2},
            "objective": {"method": method, "options": options},
            "train": {"epochs": 2.0, "batch": 6},
        },
        "a test",
    )
    train(recipe, root / method)
    return root / method


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def run(root: Path) -> Path:
    return trained(root, "mimax", {"switch": -1.0, "simplicity": SIMPLICITY})


def test_a_right_completion_is_worth_how_well_it_explains_the_question(run: Path) -> None:
    texts = ["12 + 7 = 19", "Begin with 12. Adding 7 gives 19.", "20 - 1 = 19"]
    found = reward.from_run(run)([QUESTION] * 3, texts, answer=[19, "19", ["20", "19"]])
    model = load(run)
    assert model.reconstructor is not None
    for text, value in zip(texts, found, strict=True):
        layout = tokenise(rendered_texts([text], QUESTION, "", 4), QUESTION, model.reconstructor_tokenizer)
        with torch.no_grad():
            score = float(model.reconstructor.log_prob(model.reconstructor.batch([layout], [np.zeros(1, int)])))
        wanted = math.exp((score - SIMPLICITY * len(words(text))) / len(layout.question))
        assert value == pytest.approx(wanted, rel=1e-4)
        assert 0 < wanted < 1


def test_what_of_a_question_is_not_read_does_not_count(run: Path) -> None:
    model, judge = load(run), reward.from_run(run)
    assert model.reconstructor is not None
    read = model.reconstructor.markers.positions
    tokens = model.reconstructor_tokenizer
    long = f"{QUESTION} " + "Ada walks home and eats an apple on the way. " * (read // 8)
    assert len(tokens(long)["input_ids"]) > 1.5 * read
    cut = tokens.decode(tokens(long, add_special_tokens=False)["input_ids"][: read - 4]).strip()
    first, second = judge([long, cut], ["12 + 7 = 19"] * 2, answer=[19, 19])
    assert first == pytest.approx(second, rel=0.05)


def test_a_completion_with_another_answer_or_none_is_worth_nothing(run: Path) -> None:
    assert reward.from_run(run)([QUESTION] * 2, ["12 + 8 = 20", " "], answer=[19, 19]) == [0.0, 0.0]


def test_what_cannot_be_judged_is_none_and_the_others_stay_as_they_are(run: Path) -> None:
    judge = reward.from_run(run)
    alone = judge([QUESTION], ["12 + 7 = 19"], answer=[19])
    found = judge(
        ["any prompt"] * 4,
        ["12 + 7 = 19"] * 4,
        question=[QUESTION, None, QUESTION, QUESTION],
        answer=[19, 19, None, ""],
        completion_ids=[[1]] * 4,
        trainer_state=None,
    )
    assert found == [pytest.approx(alone[0]), None, None, None]
    assert judge([QUESTION], ["12 + 7 = 19"]) == [None]
    assert judge([QUESTION] * 2, ["12 + 7 = 19"] * 2, answer=[19, 19], context=[None, "Ada is at home."])[0] is None


def test_answers_are_read_as_data_sets_hold_them_and_missing_ones_are_none(run: Path) -> None:
    judge = reward.from_run(run)
    missing = [None, "", "  ", [], (), [None], [" "], float("nan"), np.float64("nan"), np.array([])]
    assert judge([QUESTION] * 10, ["12 + 7 = 19"] * 10, answer=missing) == [None] * 10
    held = [19, "19", [None, 19], np.int64(19), np.array([18, 19]), torch.tensor(19)]
    (alone,) = judge([QUESTION], ["12 + 7 = 19"], answer=[19])
    assert judge([QUESTION] * 6, ["12 + 7 = 19"] * 6, answer=held) == pytest.approx([alone] * 6, rel=1e-4)


def test_conversations_are_read_as_plain_texts_are(run: Path) -> None:
    judge = reward.from_run(run)
    said = [{"role": "assistant", "content": "12 + 7 = 19"}]
    parts = [{"role": "assistant", "content": [{"type": "text", "text": "12 + 7 = 19"}]}]
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    plain = judge([QUESTION] * 2, ["12 + 7 = 19"] * 2, answer=[19, 19])
    assert judge([asked, asked], [said, parts], answer=[19, 19]) == pytest.approx(plain)
    assert judge.__name__ == "bonafide_reward"  # trainers log it by this name


def test_in_a_mixed_batch_every_row_is_judged_as_it_is_alone(run: Path) -> None:
    judge = reward.from_run(run)
    asked = [
        {"role": "user", "content": "Are you there?"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": QUESTION},
    ]
    rows = {
        "plain": (QUESTION, "12 + 7 = 19", 19),
        "a conversation": (asked, [{"role": "assistant", "content": "Begin with 12. Adding 7 gives 19."}], "19"),
        "another answer": (asked, [{"role": "assistant", "content": "12 - 7 = 5"}], 19),
        "no answer known": (QUESTION, "12 + 7 = 19", None),
        "no question": ([{"role": "system", "content": "Be brief."}], "12 + 7 = 19", 19),
        "an empty prompt": ([], "12 + 7 = 19", 19),
        "nothing said": (asked, [{"role": "assistant", "content": None, "tool_calls": []}], 19),
        "a long detour": (QUESTION, "20 - 1 = 19", [18, 19]),
    }
    prompts, completions, answers = (list(each) for each in zip(*rows.values(), strict=True))
    found = dict(zip(rows, judge(prompts=prompts, completions=completions, answer=answers), strict=True))
    for name, (prompt, completion, answer) in rows.items():
        (alone,) = judge(prompts=[prompt], completions=[completion], answer=[answer])
        assert found[name] == (None if alone is None else pytest.approx(alone, rel=1e-4)), name
    assert [name for name, value in found.items() if value is None] == [
        "no answer known", "no question", "an empty prompt",
    ]  # fmt: skip
    assert [name for name, value in found.items() if value == 0] == ["another answer", "nothing said"]
    assert judge(prompts=[], completions=[], answer=[]) == []


def test_a_run_without_a_reconstructor_is_refused(root: Path) -> None:
    with pytest.raises(BonafideError, match=r"with a reconstructor .*'hard-em'"):
        reward.from_run(trained(root, "hard-em", {}))


def test_importing_it_imports_nothing_heavy() -> None:
    program = "import sys; from bonafide import reward; assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
