"""How fast mentions are found, against one regular expression per question and paragraph, in the same run.

    python benchmarks/search_reading.py --data DIR            # DIR holds squad/ (or set BONAFIDE_DATA)
    python benchmarks/search_reading.py --data DIR --whole    # also the command line on the whole train set

Both sides start with the documents in memory and are timed by the processor time of one core. Ours includes indexing
every document; the baseline runs on a random sample of the questions and finds less, since an expression forgives
case alone. The run fails if the baseline finds a mention that ours does not, but for parts of a longer number.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from bonafide.documents import Document, DocumentFile
from bonafide.examples import Example, open_examples, read_gold
from bonafide.tasks.reading.matching import Matching, token_spans
from bonafide.tasks.reading.search import DocumentIndex, search
from bonafide.tasks.reading.span import Mention, MentionSet, parse_gold
from bonafide.tasks.reading.squad import import_squad_article


def main() -> None:
    """Run the comparison, the figures of what is found and, if asked, the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("BONAFIDE_DATA"))
    parser.add_argument("--questions", type=int, default=1_000, help="of the baseline")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--whole", action="store_true")
    arguments = parser.parse_args()
    if arguments.data is None:
        sys.exit("Say where the data is: --data DIR, or BONAFIDE_DATA.")
    source = Path(arguments.data) / "squad"
    with tempfile.TemporaryDirectory() as folder:
        for split in ("dev", "train"):
            data = Path(folder) / split
            import_squad_article(
                source / f"{split}.jsonl.xz",
                source / f"{split}.documents.jsonl.xz",
                data,
                source / f"{split}.gold.jsonl.xz",
            )
            file = DocumentFile(data / "documents.jsonl")
            documents = {name: file[name] for name in file}
            examples = list(open_examples(data / "examples.jsonl"))
            sets = compare(split, examples, documents, arguments.questions, arguments.seed)
            what_is_found(examples, documents, sets, data / "gold.jsonl")
        if arguments.whole:
            command_line(Path(folder) / "train", len(examples))


def compare(
    split: str, examples: list[Example], documents: dict[str, Document], count: int, seed: int
) -> list[MentionSet]:
    """Questions per second of the search and of the expressions."""
    DocumentIndex(Document("", None, ("warm",)), Matching())  # the tables of characters, made once a process
    start = time.process_time()
    indexes = {name: DocumentIndex(document, Matching()) for name, document in documents.items()}
    indexed = time.process_time() - start
    sets = [search(example.answers, indexes[example.context]) for example in examples]
    ours = time.process_time() - start
    sample = random.Random(seed).sample(range(len(examples)), min(count, len(examples)))
    start = time.process_time()
    found = [by_expression(examples[place], documents[examples[place].context]) for place in sample]
    theirs = time.process_time() - start
    inside = 0
    for place, mentions in zip(sample, found, strict=True):
        for mention in mentions:
            if not any(each.overlaps(mention) for each in sets[place]):
                assert cuts_a_number(mention, documents[examples[place].context]), (examples[place].id, mention)
                inside += 1
    ours_rate, their_rate = len(examples) / ours, len(sample) / theirs
    print(f"{split}: {len(examples):,} questions on {len(documents)} documents, one core")
    print(f"  bonafide                              {ours_rate:>9,.0f} questions/s   (all in {ours:.2f} s,")
    print(f"                                        of which indexing {indexed:.2f} s)")
    print(f"  an expression a question and paragraph{their_rate:>9,.0f} questions/s   ({len(sample):,} of them)")
    print(f"  ratio                                 {ours_rate / their_rate:>9,.1f} ×")
    listed = sum(map(len, found)), sum(len(sets[place]) for place in sample)
    print(f"  on the sample the expressions find {listed[0]:,} mentions, {listed[0] - inside:,} of them among our")
    print(f"  {listed[1]:,}; the other {inside} are parts of a longer number (the 2 of 2.5)")
    return sets


def by_expression(example: Example, document: Document) -> list[Mention]:
    """The mentions that one regular expression finds, going through the paragraphs one by one."""
    answers = "|".join(re.escape(answer) for answer in example.answers)
    expression = re.compile(rf"(?<!\w)(?:{answers})(?!\w)", re.IGNORECASE)
    return [
        Mention(place, match.start(), match.end())
        for place, paragraph in enumerate(document.paragraphs)
        for match in expression.finditer(paragraph)
    ]


def cuts_a_number(mention: Mention, document: Document) -> bool:
    """Whether a mention begins or ends inside a number."""
    paragraph = document.paragraphs[mention.paragraph]
    return any(
        paragraph[start].isdigit() and (start < mention.start < end or start < mention.end < end)
        for start, end in token_spans(paragraph)
    )


def what_is_found(
    examples: list[Example], documents: dict[str, Document], sets: list[MentionSet], gold_file: Path
) -> None:
    """Coverage with and without boundaries, sizes, and how often gold is among them."""
    sizes = np.array([mentions.size for mentions in sets])
    loose = {name: DocumentIndex(document, Matching(boundaries=False)) for name, document in documents.items()}
    without = np.array([search(each.answers, loose[each.context]).size for each in examples])
    print(f"  coverage {(sizes > 0).mean():.3%} on token boundaries, {(without > 0).mean():.3%} without")
    print(
        f"  mentions: mean {sizes.mean():.2f}, median {np.median(sizes):.0f}, 90 % at most "
        f"{np.quantile(sizes, 0.9):.0f}, largest {sizes.max():,}; several in {(sizes > 1).mean():.1%} of the questions"
    )
    gold = read_gold(gold_file)
    places, paragraphs, first = [], [], []
    for example, mentions in zip(examples, sets, strict=True):
        spans = parse_gold(gold[example.id].solution, documents[example.context])
        paragraphs.append(spans.paragraph in mentions.paragraph)
        first.append(len(mentions) > 0 and int(mentions.paragraph[0]) == spans.paragraph)
        if spans.mentions:
            places.append(spans.place_in(mentions) is not None)
    print(
        f"  gold mention found {np.mean(places):.2%} (of {len(places):,} that are known), a mention in the gold "
        f"paragraph {np.mean(paragraphs):.2%}, the first mention is in it {np.mean(first):.2%}\n"
    )


def command_line(data: Path, count: int) -> None:
    """The whole train set by the command line, with start, validation and storing."""
    out = data / "solutions"
    command = [sys.executable, "-m", "bonafide", "search", "reading", "--examples", data / "examples.jsonl"]
    start, before = time.perf_counter(), os.times()
    subprocess.run([*command, "--out", out], check=True, stderr=subprocess.DEVNULL)
    spent, after = time.perf_counter() - start, os.times()
    work = after.children_user + after.children_system - before.children_user - before.children_system
    counts = json.loads((out / "manifest.json").read_text())["counts"]
    size = sum(path.stat().st_size for path in out.iterdir())
    print(f"bonafide search reading on train: {spent:.1f} s from start to end, {work:.1f} s of processor time,")
    print(f"  {count / work:,.0f} questions a second of it")
    print(f"  {size / 1e6:.1f} MB on disk; {json.dumps(counts)}")


if __name__ == "__main__":
    main()
