"""Put faults into the real commands at random moments, and see that nothing is lost or silently wrong.

Usage: python tools/faults.py --faults 500 --seed 0 [--log faults.jsonl] [--first 17] [--areas searching,judging]

Each fault is a line of the log; the table at the end counts them. Exit code 1: something was lost or wrong.
Fault n of a seed is the same whatever was put in before it: ``--faults 1 --first n`` puts it in alone.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
os.environ.setdefault("OMP_NUM_THREADS", "1")


def main() -> int:
    """Run the command line."""
    from faults.areas import AREAS
    from faults.processes import end_all
    from faults.record import WRONG, put_in, table

    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--faults", type=int, default=500)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--first", type=int, default=0)
    asked.add_argument("--areas", default=",".join(AREAS))
    asked.add_argument("--log", type=Path, default=Path("faults.jsonl"))
    given = asked.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what is started in the background ignores it otherwise
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bonafide-faults-") as folder:
        try:
            areas = [AREAS[name](Path(folder) / name) for name in given.areas.split(",")]
            faults = put_in(areas, given.faults, given.seed, given.log, given.first)
        finally:
            end_all()
    print(table(faults))
    print(f"\n{len(faults)} faults of seed {given.seed} in {(time.monotonic() - start) / 60:.1f} min")
    wrong = [each for each in faults if each.outcome == WRONG]
    for each in wrong:
        print(f"\n{each.command}, {each.kind}, {each.target}, {each.moment}: {each.note}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
