"""The solver of discrete reasoning: its distribution over programs, its decoding, its inputs."""

from __future__ import annotations

import functools
import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bonafide.errors import BonafideError
from bonafide.tasks.discrete import features as feature_module
from bonafide.tasks.discrete import windows as window_module
from bonafide.tasks.discrete.checking import problems
from bonafide.tasks.discrete.execution import execute
from bonafide.tasks.discrete.language import Language, Rule
from bonafide.tasks.discrete.passage import Passage, read
from bonafide.tasks.discrete.program import Number, Operator, PassageSpan, Program
from bonafide.tasks.discrete.programset import ProgramSet, program_set
from bonafide.tasks.discrete.solver import DiscreteSolver, DiscreteSpec, build_discrete_solver
from bonafide.tasks.discrete.tokens import tokenise
from discrete_programs import every_program
from test_sql_solver import Waits

torch.set_num_threads(1)

SMALL = Language(constants=(100,), max_span_tokens=2, max_items=2)
QUESTION, PASSAGE = "5 or", "3 May 1648 or 7"
OTHERS = [("who", "7 8 of"), ("in 1648", "it was"), ("who", "May 1648 – 7"), ("how many", "")]
LONG = " ".join(f"in {year} there were {year % 97} ships of {name} ;" for year in range(1600, 1640) for name in "AB")


def tiny_solver(language: Language = SMALL, seed: int = 0, spread: float = 0.4, **options: object) -> DiscreteSolver:
    """A small solver whose random weights are large enough that its probabilities differ clearly."""
    values = {"layers": 1, "width": 16, "heads": 2, "positions": 64, "decoder_width": 16, "dropout": 0.0, **options}
    spec = DiscreteSpec("scratch", language=language, **values)  # type: ignore[arg-type]
    texts = [QUESTION, PASSAGE, LONG, *(text for pair in OTHERS for text in pair)]
    solver = build_discrete_solver(spec, texts, seed).double().eval()
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in solver.decoder.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=chance, dtype=torch.double) * spread)
    return solver


def whole_language(question: str, passage: str, language: Language = SMALL) -> ProgramSet:
    reading = read(question, passage)
    every = (program for operator in Operator for program in every_program(operator, reading, language))
    return program_set((program, Rule.MODEL) for program in every)


def scored(solver: DiscreteSolver, *examples: tuple[str, str, ProgramSet | None]):
    batch = solver.collate([solver.features(question, Passage(text), z) for question, text, z in examples])
    output = solver(batch)
    return output, batch, solver.log_prob(output, batch)


@pytest.mark.parametrize(("question", "passage"), [(QUESTION, PASSAGE), *OTHERS])
def test_the_probabilities_of_all_programs_of_the_language_sum_to_one(question: str, passage: str) -> None:
    programs = whole_language(question, passage)
    _, _, scores = scored(tiny_solver(), (question, passage, programs))
    assert len(scores) == len(programs) > 1
    assert scores.exp().sum().item() == pytest.approx(1, abs=1e-12)
    assert scores.std() > 0.3  # far from uniform: the sum is no accident of symmetry


def test_batching_and_padding_change_no_score() -> None:
    solver = tiny_solver()
    examples = [(question, passage, whole_language(question, passage)) for question, passage in OTHERS]
    examples.append((QUESTION, LONG, program_set([(Program(Operator.VALUE, (Number(40),)), Rule.VALUE)])))
    together = scored(solver, *examples)[2]
    alone = torch.cat([scored(solver, example)[2] for example in examples])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-9)


@pytest.mark.parametrize("size", [4, 32])
def test_the_size_of_blocks_changes_no_score(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    solver, example = tiny_solver(), (QUESTION, PASSAGE, whole_language(QUESTION, PASSAGE))
    expected = scored(solver, example)[2]
    monkeypatch.setattr(feature_module, "_BLOCK_SIZES", (size,))
    _, batch, scores = scored(solver, example, (*OTHERS[0], None))
    assert batch.node_option.shape[1] == size
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-9)


def test_decoding_in_chunks_changes_neither_scores_nor_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    solver = tiny_solver()
    examples = [(question, passage, whole_language(question, passage)) for question, passage in OTHERS]
    found = []
    for chunk in (feature_module._CHUNK, 2000):
        monkeypatch.setattr(feature_module, "_CHUNK", chunk)
        _, batch, scores = scored(solver, *examples)
        solver.zero_grad()
        (scores * torch.linspace(-1, 1, len(scores), dtype=torch.double)).sum().backward()
        found.append((len(batch.chunks), scores, [each.grad.clone() for each in solver.parameters()]))
    (one, whole, gradients), (several, parts, others) = found
    assert one == 1 < several
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-9)
    for gradient, other in zip(gradients, others, strict=True):
        torch.testing.assert_close(gradient, other, rtol=0, atol=1e-9)


def test_a_beam_as_wide_as_the_language_finds_every_program_with_the_score_it_has_as_a_solution() -> None:
    solver = tiny_solver()
    examples = [(question, passage, whole_language(question, passage)) for question, passage in OTHERS]
    output, batch, scores = scored(solver, *examples)
    sizes = batch.offsets.diff().tolist()
    found = solver.decode(output, batch, beam=max(sizes))
    for (_, _, programs), mine, decoded in zip(examples, scores.split(sizes), found, strict=True):
        assert [each.program for each in decoded] == [programs[place] for place in mine.argsort(descending=True)]
        torch.testing.assert_close(
            torch.tensor([each.log_probability for each in decoded], dtype=torch.double),
            mine.sort(descending=True).values,
            rtol=0,
            atol=1e-9,
        )


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), beam=st.integers(2, 5))
def test_a_beam_finds_at_least_what_greedy_finds_and_all_of_it_can_be_executed(seed: int, beam: int) -> None:
    language = Language(constants=(100, 1), max_items=5)
    solver = tiny_solver(language, seed, spread=0.7)
    output, batch, _ = scored(solver, (QUESTION, PASSAGE, None), *((*each, None) for each in OTHERS))
    for (question, passage), one, several in zip(
        [(QUESTION, PASSAGE), *OTHERS], solver.decode(output, batch), solver.decode(output, batch, beam), strict=True
    ):
        assert len(one) == 1
        assert several[0].log_probability >= one[0].log_probability
        assert len({each.program for each in several}) == len(several) <= beam
        for each in (*one, *several):
            assert not problems(each.program, read(question, passage), language)
            execute(each.program, read(question, passage), language)


def test_greedy_takes_the_likeliest_option_at_each_step() -> None:
    solver = tiny_solver(seed=3)
    programs = whole_language(QUESTION, PASSAGE)
    output, batch, scores = scored(solver, (QUESTION, PASSAGE, programs))
    prefix: tuple[tuple[int, int], ...] = ()
    while True:  # the share of each next action, from the programs that go on with it
        shares: dict[tuple[int, int], float] = {}
        for program, score in zip(programs, scores.exp().tolist(), strict=True):
            if program.actions[: len(prefix)] == prefix and len(program.actions) > len(prefix):
                action = program.actions[len(prefix)]
                shares[action] = shares.get(action, 0) + score
        if not shares:
            break
        prefix = (*prefix, max(shares, key=lambda action: shares[action]))
    assert solver.decode(output, batch)[0][0].program.actions == prefix


def test_no_parameter_is_without_gradient_and_a_saved_solver_scores_the_same(tmp_path) -> None:
    solver = tiny_solver()
    example = (QUESTION, PASSAGE, whole_language(QUESTION, PASSAGE))
    _, _, scores = scored(solver, example)
    weights = torch.linspace(0, 1, len(scores), dtype=torch.double)
    (scores * weights).sum().backward()
    missing = [name for name, each in solver.named_parameters() if each.grad is None or not each.grad.abs().sum() > 0]
    # The bias of keys moves all scores of a softmax alike, so it has no gradient; no piece is out of the vocabulary.
    assert not [name for name in missing if "key" not in name]
    solver.tokenizer.save_pretrained(tmp_path)
    config = json.loads(json.dumps(solver.config()))
    again = DiscreteSolver.from_config(config, tmp_path).double().eval()
    again.load_state_dict(solver.state_dict())
    assert again.spec == solver.spec
    assert scored(again, example)[2].equal(scores)


def test_a_long_passage_is_read_in_windows_that_keep_every_number_within_reach() -> None:
    solver, passage = tiny_solver(Language()), Passage(LONG)
    programs = program_set(
        (Program(Operator.VALUE, (Number(index),)), Rule.VALUE) for index in range(len(passage.numbers))
    )
    features = solver.features("who", passage, programs)
    assert len(features.windows.rows) > 10
    assert max(map(len, features.windows.rows)) <= 64
    assert features.windows.cut == window_module.Cut()
    assert features.unreachable == 0
    _, _, scores = scored(solver, ("who", LONG, programs))
    assert scores.isfinite().all()
    pieces = [solver.tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("who", LONG)]
    opening, closing = solver.tokenizer.cls_token_id, solver.tokenizer.sep_token_id
    rows, places = features.windows.rows, features.windows.places
    read_back = [int(rows[window][place]) for window, place in places]
    assert read_back == [opening, *pieces[0], closing, *pieces[1], closing]
    edges = min(min(place - 3, len(rows[window]) - 2 - place) for window, place in places[60:-60].tolist())
    assert edges >= 6  # inside the passage, no piece is read at the edge of a window


def test_what_is_cut_is_counted_and_has_no_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_module, "MOST_WINDOWS", 2)
    solver, passage = tiny_solver(Language()), Passage(LONG)
    last = len(passage.numbers) - 1
    programs = program_set(
        [
            (Program(Operator.VALUE, (Number(0),)), Rule.VALUE),
            (Program(Operator.VALUE, (Number(last),)), Rule.VALUE),
            (Program(Operator.SPANS, (PassageSpan(0, len(passage) - 1),)), Rule.SPAN),
        ]
    )
    features = solver.features("who", passage, programs)
    assert features.windows.cut.passage_pieces > 0
    assert features.unreachable == 2
    output, batch, scores = scored(solver, ("who", LONG, programs))
    assert scores.isfinite().tolist() == [programs[place].arguments[0] == Number(0) for place in range(3)]
    for decoded in solver.decode(output, batch, beam=3)[0]:
        assert not problems(decoded.program, read("who", LONG), Language())


def test_programs_outside_of_the_language_have_no_probability_and_do_not_disturb_the_others() -> None:
    inside = whole_language(QUESTION, PASSAGE)
    outside = [
        (Program(Operator.ADD, (Number(1), Number(0))), Rule.VALUE),  # not in canonical order
        (Program(Operator.SPANS, (PassageSpan(0, 3),)), Rule.SPAN),  # too long
        (Program(Operator.MAX, (Number(0),)), Rule.EXTREME),  # too few
    ]
    mixed = program_set([*((program, Rule.MODEL) for program in inside), *outside])
    solver = tiny_solver()
    scores = scored(solver, (QUESTION, PASSAGE, mixed))[2]
    expected = dict(zip(inside, scored(solver, (QUESTION, PASSAGE, inside))[2].tolist(), strict=True))
    for program, score in zip(mixed, scores.tolist(), strict=True):
        assert score == pytest.approx(expected.get(program, -float("inf")), abs=1e-9)


@pytest.mark.parametrize("passage", ["", "\u200b\u200d", "😀 😀😀 7", "\x07 7 \x00 8", "[SEP] 7 [CLS]", "7" * 5000])
def test_strange_passages_are_read(passage: str) -> None:
    solver = tiny_solver(Language())
    output, batch, _ = scored(solver, ("who ?", passage, None))
    for decoded in solver.decode(output, batch, beam=4)[0]:
        execute(decoded.program, read("who ?", passage), Language())


def test_words_that_stand_in_both_texts_have_the_same_number_in_every_window() -> None:
    solver = tiny_solver(Language())
    windows = solver.features("ships of Zwolle in 1638", Passage(LONG)).windows
    pieces = {
        word: set(solver.tokenizer(word, add_special_tokens=False)["input_ids"]) for word in ("ships", "of", "in", "a")
    }
    found: dict[int, set[int]] = {}
    for row, shared in zip(windows.rows, windows.shared, strict=True):
        for piece, number in zip(row.tolist(), shared.tolist(), strict=True):
            found.setdefault(piece, set()).add(number)
    numbers = [found[piece] for word in ("ships", "of", "in") for piece in pieces[word]]
    assert numbers == [{1}, {2}, {3}]
    assert all(found[piece] == {0} for piece in pieces["a"])
    year = [number for shared in windows.shared for number in shared.tolist() if number > 3]
    assert set(year) == {4}  # 1638, once in the question and twice in the passage, in digits


@functools.cache
def tiny_tokenizer():
    return tiny_solver(Language()).tokenizer


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["in", "1638", "Zürich", "43-yard", "😀", "\u200b", "[SEP]", "ﬁ", "e\u0301"]), max_size=8)
)
def test_each_token_points_at_the_pieces_that_overlap_it(words: list[str]) -> None:
    tokenizer, tokens = tiny_tokenizer(), tokenise(" ".join(words))
    made = window_module.pieced(tokens, tokenizer)
    offsets = tokenizer(tokens.text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True)[
        "offset_mapping"
    ]
    assert len(made.tokens) == len(tokens)
    for start, end, (first, last) in zip(tokens.starts, tokens.ends, made.tokens.tolist(), strict=True):
        over = [place for place, (begin, stop) in enumerate(offsets) if begin < end and stop > start]
        if over:
            assert (first, last) == (over[0], over[-1])
        else:
            assert 0 <= first == last <= max(0, len(offsets) - 1)


def test_a_question_longer_than_the_encoder_is_cut() -> None:
    solver = tiny_solver(Language())
    features = solver.features(f"how many {LONG}", Passage("7 ships"))
    assert features.windows.cut.question_pieces > 0
    assert max(map(len, features.windows.rows)) <= 64
    assert features.options.numbers[0] == 1


def test_nothing_between_batch_and_gradient_waits_for_the_device() -> None:
    solver = tiny_solver()
    batch = solver.collate([solver.features(QUESTION, Passage(PASSAGE), whole_language(QUESTION, PASSAGE))])
    with Waits() as waits:
        scores = solver.log_prob(solver(batch), batch)
        scores.sum().backward()
    assert not waits.found


def test_training_in_bf16_gives_log_probabilities_in_fp32() -> None:
    solver = tiny_solver(spread=0.1).float().train()
    batch = solver.collate([solver.features(QUESTION, Passage(PASSAGE), whole_language(QUESTION, PASSAGE))])
    with torch.autocast("cpu", torch.bfloat16):
        output = solver(batch)
    scores = solver.log_prob(output, batch)
    assert scores.dtype == torch.float32
    assert scores.exp().sum().item() == pytest.approx(1, abs=1e-3)


def test_bad_requests_are_refused_in_words() -> None:
    solver = tiny_solver()
    output, batch, _ = scored(solver, (QUESTION, PASSAGE, None))
    with pytest.raises(BonafideError, match="beam and a top_k of 1 or more"):
        solver.decode(output, batch, beam=0)
    with pytest.raises(BonafideError, match="texts="):
        build_discrete_solver(DiscreteSpec("scratch"))
    with pytest.raises(BonafideError, match="too few for a passage"):
        tiny_solver(positions=10).features("who is it now ?", Passage("7"))
