"""Learning to read: what the trainer asks of the reading task."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from bonafide.documents import Document, DocumentSource, open_documents
from bonafide.examples import Example, ExampleFile, Gold, open_examples
from bonafide.learn.learnable import Integers, Item, SolverModule, Split, Started
from bonafide.rendering import RenderedSet
from bonafide.search.reading import search_reading
from bonafide.search.run import Progress
from bonafide.solutions import SolutionStore
from bonafide.tasks.reading.features import Features
from bonafide.tasks.reading.matching import Matching
from bonafide.tasks.reading.metrics import exact_match, f1
from bonafide.tasks.reading.rendering import rendered
from bonafide.tasks.reading.solver import Reader, ReaderSpec, build_reader
from bonafide.tasks.reading.span import Mention, MentionSet, parse_gold
from bonafide.tasks.reading.task import MentionCodec
from bonafide.tasks.reading.windows import Windows

if TYPE_CHECKING:
    from bonafide.learn.recipe import Recipe

_WORDS = 10
"""The longest answer that is predicted, as in the reference code."""
_KEPT_DOCUMENTS = 512
_WINDOWS = 512
"""Those that are read at once where questions are answered, if one question has not more."""


@dataclass(frozen=True, slots=True)
class ReadingLanguageOptions:
    """How answers are matched in a search that the run makes itself."""

    case: bool = True
    unicode: bool = True
    punctuation: bool = True
    articles: bool = True
    boundaries: bool = True


@dataclass(frozen=True, slots=True)
class ReadingAnswer:
    """A mention that answers a question, what it says, and how likely the solver finds it."""

    mention: Mention
    answer: str
    log_probability: float

    @property
    def solution(self) -> Mention:
        """The mention."""
        return self.mention

    @property
    def text(self) -> str:
        """The answer, and where it stands."""
        return f"{self.answer} [paragraph {self.mention.paragraph + 1}, {self.mention.start}–{self.mention.end}]"

    @property
    def confidence(self) -> float:
        """P_θ(z | d, q)."""
        return math.exp(self.log_probability)


class ReadingLearning:
    """Implements :class:`bonafide.learn.learnable.Learnable`."""

    name = "reading"
    language_options = ReadingLanguageOptions

    def open_split(self, folder: Path) -> Split:
        """``examples.jsonl`` and ``documents.jsonl``."""
        source = open_documents(None, folder / "examples.jsonl")
        return Split(open_examples(folder / "examples.jsonl", source.check), _documents_of(source))

    def open_store(self, folder: Path) -> SolutionStore[MentionSet]:
        """A store of mention sets."""
        return SolutionStore(folder, MentionCodec())

    def search(
        self, recipe: Recipe, file: ExampleFile, out: Path, progress: Progress | None, started: Started | None
    ) -> None:
        """Every mention of the accepted answers."""
        matching = Matching(**asdict(recipe.language))
        search_reading(
            file.path, out, matching=matching, workers=recipe.data.workers, progress=progress, started=started
        )

    def gold_set(self, gold: Gold, example: Example, context: Document, recipe: Recipe) -> MentionSet:
        """The gold mentions; none where only the paragraph is known."""
        mentions = parse_gold(gold.solution, context).mentions
        return _set_of(mentions)

    def places_of_gold(self, gold: Gold, item: Item, recipe: Recipe) -> list[int]:
        """The mentions that overlap a gold one."""
        places: list[int] = np.flatnonzero(parse_gold(gold.solution, item.context).overlap(item.solutions)).tolist()
        return places

    def picked(self, solutions: MentionSet, kept: Integers) -> MentionSet:
        """Some of the mentions."""
        return MentionSet(
            solutions.paragraph[kept],
            solutions.start[kept],
            solutions.end[kept],
            solutions.answer[kept],
            solutions.size,
            False,
        )

    def operations(self, solutions: MentionSet) -> Integers:
        """A mention is one operation."""
        return np.ones(len(solutions), np.int64)

    def mix(self, chosen: Sequence[tuple[MentionSet, int]]) -> dict[str, float]:
        """How often the first mention is chosen, and one of the first paragraph that has any."""
        seen = max(1, len(chosen))
        first = sum(index == 0 for _, index in chosen)
        paragraph = sum(bool(mentions.paragraph[index] == mentions.paragraph[0]) for mentions, index in chosen)
        return {"selected_first_mention": first / seen, "selected_first_paragraph": paragraph / seen}

    def texts(self, items: Sequence[Item]) -> list[str]:
        """Questions, and each document once."""
        documents = {id(item.context): item.context for item in items}
        return [*(item.example.question for item in items), *(each.text for each in documents.values())]

    def build_solver(self, recipe: Recipe, store: dict[str, Any], texts: Sequence[str]) -> SolverModule:
        """A span reader with a paragraph selector."""
        options = recipe.solver
        spec = ReaderSpec(
            encoder=options.encoder,
            layers=options.layers,
            width=options.width,
            heads=options.heads,
            dropout=options.dropout,
            window=options.window,
            stride=options.stride,
            others=options.others,
            local=options.local,
        )
        return build_reader(spec, texts=texts, seed=recipe.train.seed)

    def load_solver(self, config: dict[str, Any], tokenizer: Path) -> SolverModule:
        """As it was saved."""
        return Reader.from_config(config, tokenizer)

    def rendered(self, item: Item, recipe: Recipe) -> list[RenderedSet]:
        """One set a window that shows a mention, in the order of the document."""
        return _rendered(item.solutions, item.context)

    def predict(
        self, solver: Reader, asked: Sequence[tuple[Document, str]], top: int, beam: int, execution_guided: bool
    ) -> list[list[ReadingAnswer]]:
        """The likeliest mentions of at most ten words over all windows; there is nothing to guide or to beam."""
        device = next(solver.parameters()).device
        solver.eval()
        found: list[Iterator[tuple[Mention, float]]] = []
        for part in _few_windows([solver.features(question, document) for document, question in asked]):
            batch = solver.collate_all(part).to(device)
            if not len(batch.lengths):
                found += [iter(())] * len(part)
                continue
            with torch.no_grad():
                found += solver.best(solver(batch), batch, max(top, beam), words=_WORDS)
        return [list(islice(_short(document, each), top)) for (document, _), each in zip(asked, found, strict=True)]

    def rendered_prediction(
        self, prediction: ReadingAnswer, context: Document, question: str, recipe: Recipe
    ) -> RenderedSet:
        """One mention, in its paragraph."""
        return self.place_of(prediction, context)

    def place_of(self, prediction: ReadingAnswer, context: Document) -> RenderedSet:
        """The mention, in its paragraph."""
        return rendered_mention(prediction.mention, context)

    def scores(self, prediction: ReadingAnswer, example: Example) -> dict[str, float]:
        """Exact match and F1, the best over the accepted answers."""
        accepted = [str(each) for each in example.answers]
        return {"execution": exact_match(prediction.answer, accepted), "f1": f1(prediction.answer, accepted)}


def _short(document: Document, found: Iterable[tuple[Mention, float]]) -> Iterator[ReadingAnswer]:
    for mention, score in found:
        text = mention.text(document)
        if len(text.split()) <= _WORDS:
            yield ReadingAnswer(mention, text, score)


def _few_windows(features: Sequence[Features]) -> Iterator[list[Features]]:
    """Examples that are read at once, in order."""
    part: list[Features] = []
    for each in features:
        if part and sum(len(one.windows) for one in part) + len(each.windows) > _WINDOWS:
            yield part
            part = []
        part.append(each)
    if part:
        yield part


def _documents_of(source: DocumentSource) -> Callable[[Example], Document]:
    """Where examples find their documents; those that were used are kept, since a solver encodes each object once."""

    @lru_cache(maxsize=_KEPT_DOCUMENTS)
    def document(name: str | None) -> Document:
        return source.documents[name or ""]

    return lambda example: document(example.context)


def rendered_mention(mention: Mention, document: Document) -> RenderedSet:
    """One mention in its paragraph, for the reconstructor."""
    return _rendered(_set_of([mention]), document)[0]


def _set_of(mentions: Sequence[Mention]) -> MentionSet:
    columns = np.array([(each.paragraph, each.start, each.end) for each in mentions], np.int32).reshape(-1, 3)
    paragraph, start, end = columns.T
    return MentionSet(paragraph, start, end, np.zeros(len(mentions), np.int32), len(mentions), True)


def _rendered(mentions: MentionSet, document: Document) -> list[RenderedSet]:
    """The context of a mention is its paragraph; of one that is too long the reconstructor takes a window."""
    used = np.unique(mentions.paragraph)
    ends = np.array([len(document.paragraphs[place]) for place in used.tolist()], np.int32)
    none = np.zeros_like(ends)
    return list(rendered(mentions, document, Windows(used, none, none, none, ends)).sets)
