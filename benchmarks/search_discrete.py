"""How fast the discrete search is, what it covers, and what each rule adds.

    python benchmarks/search_discrete.py --data DIR             # DIR holds drop/ (or set BONAFIDE_DATA)
    python benchmarks/search_discrete.py --data DIR --rules     # also without each rule in turn, and without bounds

Everything is on one core. Speed is in seconds of this process's own work, reading and storing left out; the wall
clock stands beside it. The baseline of the arithmetic search tries every choice of up to three operands.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from fractions import Fraction
from itertools import permutations
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from bonafide.documents import open_documents
from bonafide.examples import Example, open_examples
from bonafide.tasks.discrete.arithmetic import figures
from bonafide.tasks.discrete.asked import asked
from bonafide.tasks.discrete.drop import import_drop
from bonafide.tasks.discrete.execution import number_text
from bonafide.tasks.discrete.language import SEARCHED_RULES, Language, Rule, rules_without
from bonafide.tasks.discrete.metrics import ANSWER_TYPES, answer_type
from bonafide.tasks.discrete.passage import Passage, Reading, read
from bonafide.tasks.discrete.program import Operator
from bonafide.tasks.discrete.programset import ProgramSet
from bonafide.tasks.discrete.search import answer_number, search

DAYS_AND_MONTHS = {"day", "days", "month", "months"}
ARITHMETIC = ("value", "arithmetic-two", "arithmetic-three")
Pairs = list[tuple[Example, Passage]]


def main() -> None:
    """Coverage, sizes and speed; the baseline; and what each rule adds, if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("BONAFIDE_DATA"))
    parser.add_argument("--split", default="train")
    parser.add_argument("--questions", type=int, default=100, help="questions of the comparison with the baseline")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rules", action="store_true")
    arguments = parser.parse_args()
    if arguments.data is None:
        sys.exit("Say where the data is: --data DIR, or BONAFIDE_DATA.")
    pairs = load(Path(arguments.data) / f"drop/{arguments.split}.json.xz")
    report(pairs)
    compare(random.Random(arguments.seed).sample(pairs, arguments.questions))
    if arguments.rules:
        what_rules_add(pairs)


def load(path: Path) -> Pairs:
    """The examples of a DROP file with their passages, each passage once."""
    with tempfile.TemporaryDirectory() as folder:
        import_drop(path, Path(folder))
        examples = Path(folder) / "examples.jsonl"
        source = open_documents(None, examples)
        passages: dict[str, Passage] = {}
        return [
            (example, passages.setdefault(example.context or "", Passage(source.document_of(example).text)))
            for example in open_examples(examples)
        ]


def run(pairs: Pairs, language: Language) -> tuple[list[ProgramSet], float, float]:
    """Every solution set, the seconds of work and the seconds that passed."""
    pairs = [(example, Passage(passage.text)) for example, passage in pairs]  # nothing is prepared yet
    same: dict[str, Passage] = {}
    work, wall = time.process_time(), time.perf_counter()
    found = [
        search(Reading(Passage(example.question), same.setdefault(passage.text, passage)), example.answers, language)
        for example, passage in pairs
    ]
    return found, time.process_time() - work, time.perf_counter() - wall


def report(pairs: Pairs) -> None:
    """Speed, coverage and sizes by the type of the answer, and the solutions of each rule."""
    found, work, wall = run(pairs, Language())
    print(
        f"{len(pairs):,} questions on one core: {len(pairs) / work:,.0f} a second ({work:.1f} s; {wall:.1f} s passed)"
    )
    print("answers     questions   covered   mean |Z|   median   90 %   largest")
    for kind in ("all", *ANSWER_TYPES):
        sets = [each for each, (example, _) in zip(found, pairs, strict=True) if kind in ("all", _type(example))]
        sizes = sorted(len(each) for each in sets)
        print(
            f"{kind:<10} {len(sets):>10,} {sum(size > 0 for size in sizes) / len(sizes):>9.2%} "
            f"{statistics.mean(sizes):>10.2f} {statistics.median(sizes):>8.0f} {sizes[int(0.9 * len(sizes))]:>6} "
            f"{sizes[-1]:>9,}"
        )
    print()
    intended(pairs, found)


def intended(pairs: Pairs, found: list[ProgramSet]) -> None:
    """How often the kind of solution that a question asks for, by its words, is in the set.

    Counts: *how many* of something that is no measure, and not *how many more*, answered by a number up to 10; some
    of these are answered by a number of the passage all the same (how many wins: a record of 8–2).
    """
    counts, differences = [], []
    for (example, _), solutions in zip(pairs, found, strict=True):
        answer, question = example.answers[0], Passage(example.question)
        if not isinstance(answer, int):
            continue
        operators = set(solutions.operators().tolist())
        if asked(question).counts and answer <= 10:
            counts.append((Operator.COUNT in operators, Operator.COUNT in operators or Operator.VALUE in operators))
        if {"how", "many"} <= set(question.tokens.lower) and DAYS_AND_MONTHS & set(question.tokens.lower):
            differences.append(bool({Operator.DAYS, Operator.MONTHS} & operators))
    count, either = (sum(each) / len(counts) for each in zip(*counts, strict=True))
    print(f"{len(counts):,} questions ask to count: {count:.1%} have a count, {either:.1%} a count or a number")
    share = sum(differences) / len(differences)
    print(f"{len(differences):,} questions ask for days or months: {share:.1%} have a difference of dates\n")


def _type(example: Example) -> str:
    return answer_type(example.answers[0])


def compare(sample: Pairs) -> None:
    """Hashing on the remainder against trying every choice of operands, on real passages and on longer ones."""
    real = [
        (Reading(Passage(example.question), passage), number)
        for example, passage in sample
        if (number := answer_number(example.answers[0])) is not None and len(passage.numbers) <= 60
    ]
    print("arithmetic of up to three operands      programs   by remainders    one by one")
    race(f"{len(real)} questions of the data", real)
    chance = random.Random(0)
    for count in (25, 50, 100, 200):
        text = " ".join(str(chance.randint(1, 2000)) for _ in range(count))
        race(f"one passage of {count} numbers", [(read("How many?", text), Fraction(chance.randint(1, 2000)))])
    print()


def race(title: str, questions: list[tuple[Reading, Fraction]]) -> None:
    """Milliseconds a question of both ways, which must find equally many programs."""
    language = Language(operands="any", rules=ARITHMETIC)
    for reading, _ in questions:
        figures(reading.passage)  # both start with the numbers found
    start = time.process_time()
    ours = [len(search(reading, (number_text(number),), language)) for reading, number in questions]
    spent = (time.process_time() - start) / len(questions)
    start = time.process_time()
    theirs = [brute_force(reading, number) for reading, number in questions]
    baseline = (time.process_time() - start) / len(questions)
    assert ours == theirs, "both must find the same programs"
    print(f"  {title:<32} {sum(ours):>13,} {1000 * spent:>12.2f} ms {1000 * baseline:>10.2f} ms")


def brute_force(reading: Reading, answer: Fraction) -> int:
    """How many programs of one to three numbers of the passage return the answer."""
    known = figures(reading.passage)
    target, values = known.scaled(answer), known.values
    if target is None:
        return 0
    count = sum(value == target for value in values)
    indices = range(len(values))
    for one, two in permutations(indices, 2):
        count += (one < two) * (values[one] + values[two] == target) + (values[one] - values[two] == target)
    for one, two, three in permutations(indices, 3):
        if one < two:
            pair = values[one] + values[two]
            count += (two < three) * (pair + values[three] == target) + (pair - values[three] == target)
            count += values[three] - pair == target
    return count


def what_rules_add(pairs: Pairs) -> None:
    """For each rule: in how many sets it is, its solutions a question, and coverage and size without it."""
    found, _, _ = run(pairs, Language())
    solved = sum(len(each) > 0 for each in found)
    total = sum(map(len, found))
    print("rule                   in sets   solutions a question   coverage without   mean |Z| without")
    for name in SEARCHED_RULES:
        rule = Rule[name.upper().replace("-", "_")]
        of_rule = [int((each.rule == rule).sum()) for each in found]
        without, _, _ = run(pairs, Language(rules=rules_without([name])))
        print(
            f"{name:<20} {sum(count > 0 for count in of_rule) / len(pairs):>9.1%} {sum(of_rule) / len(pairs):>22.2f} "
            f"{sum(len(each) > 0 for each in without) / len(pairs):>18.2%} {sum(map(len, without)) / len(pairs):>18.2f}"
        )
    print(f"{'all':<20} {'':>9} {total / len(pairs):>22.2f} {solved / len(pairs):>18.2%} {total / len(pairs):>18.2f}\n")
    for title, language in (
        ("two operands at most", Language(max_operands=2)),
        ("any operands together", Language(operands="any")),
        ("20 choices at most", Language(max_choices=20)),
        ("no numbers of the question", Language(question_numbers=False)),
    ):
        sets, work, _ = run(pairs, language)
        counted = sum(int((each.operators() == Operator.COUNT).any()) for each in sets)
        sizes = [len(each) for each in sets]
        print(
            f"{title:<28} coverage {sum(size > 0 for size in sizes) / len(sizes):.2%}, mean |Z| "
            f"{statistics.mean(sizes):.2f}, median {statistics.median(sizes):.0f}, {counted:,} sets with a count, "
            f"{len(pairs) / work:,.0f} questions/s"
        )


if __name__ == "__main__":
    main()
