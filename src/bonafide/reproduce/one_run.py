"""One run of a table, in a process of its own: train, judge on dev, write the result.

``python -m bonafide.reproduce.one_run JOB.json [PARENT]``. Ended by SIGTERM, or when its parent process is gone, it
leaves its folder as it was at the last checkpoint, and the same command goes on from there, also where the folder was
moved. So it does where memory ran out. A run of other data or settings is begun anew.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

from bonafide.errors import BonafideError, out_of_memory
from bonafide.files import read_json, write_json
from bonafide.learn.data import load_training_data
from bonafide.learn.kept import KEPT
from bonafide.learn.recipe import Recipe, recipe_from
from bonafide.learn.runfolder import RunFolder
from bonafide.learn.saved import Model
from bonafide.learn.steps import Progress
from bonafide.learn.trainer import Trainer
from bonafide.report.runs import load_for_evaluation
from bonafide.reproduce.judged import Dev, judged
from bonafide.reproduce.results import Result, agree, without_places
from bonafide.sealed import read_sealed, write_sealed

STOPPED = 75
"""The exit status of a run that was stopped and can go on."""
SHORT = 76
"""That of one for which there was not enough memory."""
_ALLOCATED = 0.95
"""Of a GPU's memory; the rest is for what CUDA itself keeps for each process."""
_CURVE = "selection.json"
_SECONDS = "seconds.json"
_STORES = "stores.json"


class Watch:
    """Told after each step; at each evaluation of a run it puts the selection task to the model as it is then."""

    def __init__(self, recipe: Recipe, run: Path, dev: Dev | None, parent: int) -> None:
        self._recipe, self._path, self._dev, self._parent = recipe, run / _CURVE, dev, parent
        self.trainer: Trainer | None = None

    def __call__(self, progress: Progress) -> None:
        """Stop where nobody waits for the run any more; measure where the trainer has evaluated."""
        self.stop_if_alone()
        if self._dev is None or "examples_per_second" in progress.figures:
            return
        assert self.trainer is not None
        trainer = self.trainer
        about = {"recipe": self._recipe.to_json()}
        model = Model(trainer.solver, trainer.reconstructor, trainer.reconstructor_tokenizer, about)
        chosen = self._dev.select(model)
        for module in trainer.modules.values():
            module.train()
        if chosen is not None:
            point = {"epoch": progress.step / trainer.steps_per_epoch, **chosen.to_json()}
            write_json(self._path, {**self._points(), str(progress.step): point})

    def stop_if_alone(self) -> None:
        """Nobody waits for a run whose parent is gone."""
        if os.getppid() != self._parent:
            raise KeyboardInterrupt

    def curve(self) -> list[dict[str, Any]]:
        """What was measured, by epoch."""
        return sorted(self._points().values(), key=lambda point: point["epoch"])

    def _points(self) -> dict[str, Any]:
        return read_json(self._path) if self._path.exists() else {}


def run_job(job: dict[str, Any], parent: int | None = None) -> None:
    """Train and judge as ``job`` says, and write its result, for as long as the parent process is ``parent``."""
    _take_share(job["side_by_side"])
    recipe, run, began = recipe_from(job["recipe"], job["name"]), Path(job["run"]), time.perf_counter()
    dev = Dev.open(recipe, Path(job["dev_solutions"]))
    watch = Watch(recipe, run, dev if job["curve"] else None, parent or os.getppid())
    watch.stop_if_alone()
    stores = {"train": Path(recipe.data.solutions).name, "dev": Path(job["dev_solutions"]).name}
    if recipe.objective.method == "supervised" and "train_gold" in job["data"]:
        stores["gold"] = job["data"]["train_gold"]
    _take_up(recipe, run, stores)
    if not (run / _SECONDS).exists():  # else it was stopped while it was judged
        _train(recipe, run, watch, began, stores, job["side_by_side"])
    watch.stop_if_alone()
    seconds, judging = read_json(run / _SECONDS), time.perf_counter()
    memory = seconds.pop("memory")
    found = judged(load_for_evaluation(run), dev, run)
    environment = {key: value for key, value in read_json(run / "environment.json").items() if key != "command"}
    seconds = {"side_by_side": job["side_by_side"], **seconds, "judging": round(time.perf_counter() - judging, 2)}
    content = {
        **{key: job[key] for key in ("recipe_name", "settings", "seed", "data")},
        **found,
        "curve": watch.curve(),
        "trained_on": read_json(run / "result.json")["data"],
        "seconds": seconds,
        "environment": {**environment, "cpus": os.cpu_count(), "gpu_memory": memory},
    }
    Result(Path(job["result"]), content).write()
    shutil.rmtree(run / "checkpoints", ignore_errors=True)


def _take_share(runs: int) -> None:
    """Keep to an equal part of the GPU's memory: what one run only holds to use it again, another may need to go on."""
    if torch.cuda.is_available() and runs > 1:
        torch.cuda.set_per_process_memory_fraction(_ALLOCATED / runs)


def _take_up(recipe: Recipe, run: Path, stores: dict[str, str]) -> None:
    """Give a run that was begun elsewhere the places of here; delete what was begun with other settings or data.

    The name of a store holds a hash of the language, the examples and the contexts, so it tells data apart.
    """
    if not (run / "recipe.json").exists():
        return
    saved, wanted = read_sealed(run / "recipe.json"), recipe.to_json()
    begun = {section: saved.get(section, {}) for section in wanted}
    of = {"train": Path(begun["data"]["solutions"]).name}
    if (run / _STORES).exists():
        of = read_json(run / _STORES)
    if agree(of, stores) and agree(without_places(begun), without_places(wanted)):
        write_sealed(run / "recipe.json", {**saved, **wanted})
    else:
        shutil.rmtree(run)


def _train(recipe: Recipe, run: Path, watch: Watch, began: float, stores: dict[str, str], together: int) -> None:
    resumed = (run / "recipe.json").exists()
    os.environ.setdefault("CUDA_SCALE_LAUNCH_QUEUES", "4x")
    with RunFolder.open(run, recipe, resume=True) as folder:
        watch.trainer = Trainer(recipe, load_training_data(recipe, run, kept=run / KEPT), folder, watch)
        write_json(run / _STORES, stores)
        ready = time.perf_counter()
        watch.trainer.run()
    done, waited = time.perf_counter(), watch.trainer.seconds
    watch.trainer = None
    seconds = {"preparing": ready - began, "training": done - ready, **waited}
    seconds = {name: round(each, 2) for name, each in seconds.items()}
    write_json(run / _SECONDS, {**seconds, "resumed": resumed, "side_by_side": together, "memory": _memory()})


def _memory() -> int | None:
    """The most that training took on a GPU, which is given back: judging takes less, and others train beside it."""
    if not torch.cuda.is_available():
        return None
    gc.collect()
    torch.cuda.empty_cache()
    return torch.cuda.max_memory_allocated()


def _stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the job that is named on the command line."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        run_job(read_json(Path(sys.argv[1])), *map(int, sys.argv[2:3]))
    except KeyboardInterrupt:
        sys.exit(STOPPED)
    except (BonafideError, RuntimeError, MemoryError) as error:
        short = out_of_memory(error)
        if not short and not isinstance(error, BonafideError):
            raise
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(SHORT if short else 2)


if __name__ == "__main__":
    main()
