"""How fast ``bonafide serve`` answers, and what it does when too many ask.

    python benchmarks/serve.py                                 # a MiniLM solver, 10 requests a second for 30 seconds
    python benchmarks/serve.py --rate 20 --seconds 60 --clients 500

The solver is MiniLM with its pretrained weights under slots that have learned nothing: a trained one takes as long. The
questions and tables are the synthetic benchmark's; each request brings its table as rows, so that reading it counts.

*At a rate*: requests are sent at fixed times whether or not earlier ones were answered, and a latency runs from the
time at which a request was due to its last byte. *All at once*: so many clients ask one question after the other, each
on a new connection. An answer to a request that was let in (200) must repeat its question; one that is refused (429 or
503) must say why. Lost is whoever gets neither. The client runs on the same cores as the server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bonafide.learn.recipe import recipe_from
from bonafide.learn.saved import Model, save_model
from bonafide.synth.sql import generate
from bonafide.tasks.sql.solver import SolverSpec, build_sql_solver

Body = dict[str, Any]


def main() -> None:
    """Measure, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="minilm", help="as in a recipe")
    parser.add_argument("--run", type=Path, help="a run to serve, in place of one that has learned nothing")
    parser.add_argument("--rate", type=float, default=10.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--questions", type=int, default=5, help="of each client")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = arguments.run or untrained(Path(folder) / "run", arguments.encoder)
        server = Server(run, Path(folder) / "log")
        try:
            asked = questions()
            asyncio.run(at_a_rate(server, asked, 10.0, 1.0))  # warm
            figures = {
                "cores": len(os.sched_getaffinity(0)),
                "load of the machine before": os.getloadavg()[0],
                "at a rate": asyncio.run(at_a_rate(server, asked, arguments.rate, arguments.seconds)),
                "all at once": asyncio.run(all_at_once(server, asked, arguments.clients, arguments.questions)),
            }
        finally:
            server.stop()
    print(json.dumps(figures, indent=2))


def untrained(folder: Path, encoder: str) -> Path:
    """A run with a solver as it was made."""
    recipe = recipe_from({"solver": {"encoder": encoder}}, "the benchmark")
    solver = build_sql_solver(SolverSpec(encoder=encoder), seed=0)
    save_model(folder / "model", Model(solver.eval(), None, None, {"recipe": recipe.to_json()}))
    return folder


def questions() -> list[Body]:
    """Bodies of requests."""
    tables, pairs = generate(20, 10, seed=0)
    rows = {table.id: [dict(zip(table.header, row, strict=True)) for row in table.rows] for table in tables}
    return [{"question": example.question, "rows": rows[example.context or ""]} for example, _ in pairs]


class Server:
    """``bonafide serve`` in a process of its own."""

    def __init__(self, run: Path, log: Path) -> None:
        with log.open("w") as stream:
            command = [sys.executable, "-m", "bonafide", "serve", str(run), "--port", "0"]
            self._process = subprocess.Popen(command, stderr=stream)
        while not (lines := [line for line in log.read_text().splitlines() if line.startswith("{")]):
            if self._process.poll() is not None:
                raise SystemExit(log.read_text())
            time.sleep(0.05)
        parts = urlsplit(json.loads(lines[0])["address"])
        self._place = parts.hostname, parts.port

    def stop(self) -> None:
        """End it in good order."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()

    async def predict(self, body: Body) -> tuple[int, Any]:
        """Status and answer; status 0: none came."""
        content = json.dumps(body).encode()
        head = "POST /predict HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nconnection: close\r\n"
        try:
            reader, writer = await asyncio.open_connection(*self._place)
            writer.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
            raw = await reader.read()
            writer.close()
        except OSError:
            return 0, None
        first, _, answer = raw.partition(b"\r\n\r\n")
        return (int(first.split()[1]), json.loads(answer)) if first else (0, None)


async def at_a_rate(server: Server, asked: list[Body], rate: float, seconds: float) -> dict[str, float]:
    """Latencies in milliseconds at so many requests a second."""
    begin = time.perf_counter()

    async def one(number: int) -> float:
        due = begin + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        status, answer = await server.predict(asked[number % len(asked)])
        if status != 200:
            raise SystemExit(f"A request was not answered: {status} {answer}")
        return 1000 * (time.perf_counter() - due)

    taken = await asyncio.gather(*(one(number) for number in range(int(rate * seconds))))
    cuts = statistics.quantiles(taken, n=100)
    return {"requests": len(taken), "p50": cuts[49], "p95": cuts[94], "p99": cuts[98], "most": max(taken)}


async def all_at_once(server: Server, asked: list[Body], clients: int, each: int) -> dict[str, Any]:
    """How many were answered, refused with a reason, and lost."""
    begin = time.perf_counter()

    async def client(number: int) -> Counter[str]:
        counted: Counter[str] = Counter()
        for turn in range(each):
            body = asked[(number * each + turn) % len(asked)]
            status, answer = await server.predict(body)
            if status == 200 and answer["question"] == body["question"] and answer["solution"]:
                counted["answered"] += 1
            elif status in (429, 503) and answer["error"]:
                counted[f"refused with {status} and a reason"] += 1
            else:
                counted["lost"] += 1
        return counted

    counts = await asyncio.gather(*(client(number) for number in range(clients)))
    total = sum(counts, Counter())
    seconds = time.perf_counter() - begin
    answers = {name: total[name] for name in ("answered", *sorted(set(total) - {"answered", "lost"}), "lost")}
    return {"clients": clients, **answers, "answered a second": round(total["answered"] / seconds, 1)}


if __name__ == "__main__":
    main()
