"""A trained model on disk and in use: ``bonafide.load(folder).predict(table, question)``.

model/
  model.json                    format, tool, what kind of solver and reconstructor, their configurations
  solver.safetensors            weights
  solver-tokenizer/             as transformers writes it
  reconstructor.safetensors     where there is one
  reconstructor-tokenizer/
"""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bonafide import __version__
from bonafide.errors import BonafideError, shortened
from bonafide.files import explained, read_json
from bonafide.learn.checkpoint import replace_folder, sha256
from bonafide.learn.learnable import Learnable, SolverModule, learnable, speaking
from bonafide.learn.recipe import Recipe, recipe_from
from bonafide.learn.tensors import copied, read_tensors, write_tensors
from bonafide.pretrained import checkpoint_errors
from bonafide.reconstruct.layout import Layout, tokenise
from bonafide.reconstruct.model import Reconstructor
from bonafide.rendering import RenderedSet, joined
from bonafide.sealed import read_sealed, write_sealed

FORMAT = 1
_CONTEXTS = 64
"""How many are read at once where predictions are explained."""


@dataclass(frozen=True, slots=True)
class Model:
    """A trained solver, and the reconstructor that taught it where there is one."""

    solver: SolverModule
    reconstructor: Reconstructor | None
    reconstructor_tokenizer: Any
    about: dict[str, Any]

    @property
    def task(self) -> Learnable:
        """What it was trained for."""
        task = learnable(self.about["recipe"]["data"].get("task", "sql"))
        return speaking(task, self.solver.config().get("spec", {}))

    def predict(
        self,
        context: Any,
        question: str,
        top: int = 5,
        beam: int = 8,
        execution_guided: bool = False,
        reconstruction: float = 0.0,
    ) -> list[Any]:
        """The most likely solutions of a question about a table or a text, best first."""
        return self.predict_all([(context, question)], top, beam, execution_guided, reconstruction)[0]

    def predict_all(
        self,
        asked: Sequence[tuple[Any, str]],
        top: int = 1,
        beam: int = 1,
        execution_guided: bool = False,
        reconstruction: float = 0.0,
    ) -> list[list[Any]]:
        """The same for many questions, in one batch.

        ``reconstruction`` w: the ``beam`` likeliest, at least ``top``, are put in the order of log P_θ(z | d, q) +
        w · log P_φ(q | d, z), where there is a reconstructor.
        """
        if not reconstruction or self.reconstructor is None:
            return self.task.predict(self.solver, asked, top, beam, execution_guided)
        found = self.task.predict(self.solver, asked, max(top, beam), beam, execution_guided)
        return [each[:top] for each in self.voted(asked, found, reconstruction)]

    def voted(
        self, asked: Sequence[tuple[Any, str]], found: Sequence[Sequence[Any]], reconstruction: float
    ) -> list[list[Any]]:
        """Predictions in the order that the reconstructor has a say in."""
        ordered = []
        for each, scores in zip(found, self.explained(asked, found), strict=True):
            both = np.array([one.log_probability for one in each]) + reconstruction * scores
            ordered.append([each[place] for place in np.argsort(-both, kind="stable")])
        return ordered

    def explained(
        self, asked: Sequence[tuple[Any, str]], found: Sequence[Sequence[Any]]
    ) -> list[npt.NDArray[np.float64]]:
        """For each question, log P_φ(q | d, z) of its predictions."""
        assert self.reconstructor is not None, "the model has a reconstructor"
        recipe, tokenizer = recipe_from(self.about["recipe"], "the model"), self.reconstructor_tokenizer
        layouts: list[Layout] = []  # one for each context that a question's predictions have
        order: list[int] = []  # whose scores these are
        for (context, question), predictions in zip(asked, found, strict=True):
            first = len(order)
            for places, shown in self.shown(context, question, predictions, recipe):
                layouts.append(tokenise(shown, question, tokenizer))
                order += [first + place for place in places]
        scores = np.zeros(len(order))
        if layouts:
            self.reconstructor.eval()
            parts = [layouts[start : start + _CONTEXTS] for start in range(0, len(layouts), _CONTEXTS)]
            with torch.no_grad():
                scores[order] = np.concatenate([_explained(self.reconstructor, part) for part in parts])
        return np.split(scores, np.cumsum([len(each) for each in found])[:-1])

    def shown(
        self, context: Any, question: str, predictions: Sequence[Any], recipe: Recipe
    ) -> list[tuple[list[int], RenderedSet]]:
        """Predictions as a reconstructor reads them: the places of those that have a context in common, and they."""
        by_context = defaultdict[str, list[tuple[int, RenderedSet]]](list)
        for place, one in enumerate(predictions):
            shown = self.task.rendered_prediction(one, context, question, recipe)
            by_context[shown.context].append((place, shown))
        return [([place for place, _ in each], joined([shown for _, shown in each])) for each in by_context.values()]


def _explained(reconstructor: Reconstructor, layouts: Sequence[Layout]) -> npt.NDArray[np.float64]:
    batch = reconstructor.batch(layouts, [np.arange(len(layout)) for layout in layouts])
    scores: npt.NDArray[np.float64] = reconstructor.log_prob(batch, full_precision=True).double().cpu().numpy()
    return scores


def save_model(folder: Path, model: Model) -> None:
    """Write a model so that the folder is there only when it is whole."""
    model_writer(folder, model)()


def model_writer(folder: Path, model: Model) -> Callable[[], None]:
    """The same in two parts: what is to be written is copied now, and written when the result is called."""
    about = {**model.about, "format": FORMAT, "tool": f"bonafide {__version__}", "solver": model.solver.config()}
    weights = {"solver": copied(model.solver.state_dict())}
    texts = _tokenizer_files(model.solver.tokenizer, "solver-tokenizer", folder)
    if model.reconstructor is not None:
        about["reconstructor"] = model.reconstructor.config()
        weights["reconstructor"] = copied(model.reconstructor.state_dict())
        texts |= _tokenizer_files(model.reconstructor_tokenizer, "reconstructor-tokenizer", folder)

    def write() -> None:
        part = folder.with_name(f".{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        try:
            with explained(part, "write"):
                part.mkdir(parents=True)
                for name, tensors in weights.items():
                    write_tensors(part / f"{name}.safetensors", tensors)
                for name, content in texts.items():
                    (part / name).parent.mkdir(exist_ok=True)
                    (part / name).write_bytes(content)
                files = sorted(path for path in part.rglob("*") if path.is_file())
                sums = {str(path.relative_to(part)): sha256(path) for path in files}
                write_sealed(part / "model.json", {**about, "sha256": sums})
                replace_folder(part, folder)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise

    return write


def _tokenizer_files(tokenizer: Any, name: str, folder: Path) -> dict[str, bytes]:
    """Its files by their place in the model's folder; a tokenizer cannot be saved while another thread uses it."""
    with explained(Path(tempfile.gettempdir()), "write"), tempfile.TemporaryDirectory() as made:
        try:
            tokenizer.save_pretrained(made)
        except OSError:
            raise
        except Exception as error:  # tokenizers raises nothing narrower, a full disk included
            raise BonafideError(f"Cannot write {folder / name}: {error}. Is the disk full?") from None
        paths = (path for path in Path(made).rglob("*") if path.is_file())
        return {f"{name}/{path.relative_to(made)}": path.read_bytes() for path in paths}


def check_model(run: Path) -> Path:
    """The folder of a run's model, or what is to be done where there is none."""
    folder = run / "model" if (run / "model").is_dir() else run
    if (folder / "model.json").exists():
        return folder
    said = f"there is no {folder / 'model.json'}. Train one first."
    if (run / "recipe.json").exists():
        said = "its training has saved none yet. Go on with it by bonafide train … --resume."
    elif (run / "starts.json").exists():
        best = run / str(read_json(run / "starts.json").get("best"))
        said = f"it is a folder of several starts. Name one of them, such as {best}."
    raise BonafideError(f"{run} holds no trained model: {said}")


def load(run: Path | str, device: str | torch.device = "cpu") -> Model:
    """The model of a run's folder."""
    from transformers import AutoTokenizer

    folder = check_model(Path(run))
    about = read_sealed(folder / "model.json")
    if about.get("format") != FORMAT:
        raise BonafideError(
            f"{folder} was written by {about.get('tool', 'an unknown tool')} in model format {about.get('format')!r}; "
            f"this is bonafide {__version__}, which reads format {FORMAT}."
        )
    for key in ("solver", "recipe"):
        if not isinstance(about.get(key), dict):
            raise BonafideError(f"{folder / 'model.json'} does not say what {key} the model has: it may be damaged.")
    _check_files(folder, about.get("sha256", {}))
    with _described(folder, "recipe"):
        task = learnable(about["recipe"]["data"].get("task", "sql"))
    tensors = read_tensors(folder / "solver.safetensors")
    with _described(folder, "solver"):
        _check_layers(about["solver"], len(tensors))
        solver = task.load_solver(about["solver"], folder / "solver-tokenizer")
    _load_weights(solver, tensors, folder / "solver.safetensors")
    reconstructor, tokenizer = None, None
    if "reconstructor" in about:
        with checkpoint_errors(folder / "reconstructor-tokenizer"):
            tokenizer = AutoTokenizer.from_pretrained(folder / "reconstructor-tokenizer")
        tensors = read_tensors(folder / "reconstructor.safetensors")
        with _described(folder, "reconstructor"):
            _check_layers(about["reconstructor"], len(tensors))
            reconstructor = Reconstructor.from_config(about["reconstructor"])
        _load_weights(reconstructor, tensors, folder / "reconstructor.safetensors")
        reconstructor.to(device).eval()
    return Model(solver.to(device).eval(), reconstructor, tokenizer, about)


def _check_files(folder: Path, sums: Any) -> None:
    if not isinstance(sums, dict):
        raise BonafideError(f"{folder / 'model.json'} does not say which checksums the files have: it may be damaged.")
    for name, expected in sums.items():
        if "\0" in name or Path(name).is_absolute() or ".." in Path(name).parts:
            raise BonafideError(f"{folder / 'model.json'} names a file outside its folder, {shortened(name)}.")
        if sha256(folder / name) != expected:
            raise BonafideError(f"{folder / name} is damaged or cut short: its checksum is another.")


@contextmanager
def _described(folder: Path, part: str) -> Iterator[None]:
    """Build a part from what ``model.json`` says of it, which may be anything where somebody changed it."""
    try:
        yield
    except BonafideError as error:
        raise BonafideError(f"{folder / 'model.json'}: {error}") from None
    except Exception as error:  # of a damaged configuration transformers and torch raise errors of almost any type
        reason = shortened(str(error).strip() or type(error).__name__)
        raise BonafideError(
            f"{folder / 'model.json'} does not describe a {part} ({reason}): it may be damaged, or of another version."
        ) from None


def _check_layers(config: dict[str, Any], tensors: int) -> None:
    """A model is built before its weights are put in: one of more layers than there are weights is not begun."""
    for key, value in config.items():
        if isinstance(value, dict):
            _check_layers(value, tensors)
        elif "layers" in key and isinstance(value, int) and value > tensors:
            raise BonafideError(f"{key} is {value:,}, and the weights are {tensors:,} tensors: it may be damaged.")


def _load_weights(module: torch.nn.Module, tensors: dict[str, torch.Tensor], path: Path) -> None:
    try:
        module.load_state_dict(tensors)
    except (RuntimeError, KeyError) as error:
        raise BonafideError(f"{path} does not fit the model it is for: {str(error).splitlines()[0]}") from None
