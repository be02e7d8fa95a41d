"""Rows per second of one model that two processes train together, beside those of one process.

A table of 10^6 rows on disk, the default model of tables, one thread each. Both take turns in the same
processes: while one trains alone, the others sleep. Processor time excludes the work of others on a busy
machine, and waiting for each other; the wall clock includes both.

    torchrun --standalone --nproc-per-node 2 benchmarks/ranks.py   # writes benchmarks/results/ranks.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from rows import write_table

from deeplfm.io.files import write_whole
from deeplfm.terms import BuildContext, Table
from deeplfm.training import Phase, Rows, Schedule, StoredRows, train
from deeplfm.training.distributed import World, alone, together, world

RESULTS = Path(__file__).parent / "results" / "ranks.json"
MODELS = {"hidden 2, 20 features": Table((2,), 1, 20), "default": Table()}


def seconds_to_train(
    table: Table, rows: StoredRows, batch_size: int, n_steps: int
) -> tuple[float, float]:
    """Seconds of the processor and of the clock that this process takes."""
    shown = rows.take(torch.arange(2000))
    model = table.build(shown, BuildContext(dtype=torch.float32))
    schedule = Schedule("collapsed", (Phase(n_steps),), batch_size=batch_size)
    cpu, wall = time.process_time(), time.perf_counter()
    train(model, rows, schedule, solve=False)
    return time.process_time() - cpu, time.perf_counter() - wall


def measure(table: Table, rows: StoredRows, batch_size: int, n_steps: int) -> dict[str, float]:
    """Seconds of one process, and of all together: the longest of them."""
    everyone = world()
    everyone.gather(None)
    with alone():
        one = seconds_to_train(table, rows, batch_size, n_steps) if everyone.rank == 0 else (0, 0)
    everyone.gather(None)  # the others sleep here
    own = seconds_to_train(table, rows, batch_size, n_steps)
    found = everyone.gather((one, own))
    (cpu, wall), shared = found[0][0], [pair for _, pair in found]
    return {
        "one_cpu": cpu,
        "one_wall": wall,
        "each_cpu": max(pair[0] for pair in shared),
        "each_wall": max(pair[1] for pair in shared),
    }


def summary(turns: list[dict[str, float]], n_trained: int) -> dict[str, float]:
    """Medians over the turns: rows per second, and how many times as many all processes make."""
    median = {key: statistics.median(turn[key] for turn in turns) for key in turns[0]}
    ratio = {
        key: statistics.median(turn[f"one_{key}"] / turn[f"each_{key}"] for turn in turns)
        for key in ("cpu", "wall")
    }
    return {
        "rows_per_cpu_second_of_one": n_trained / median["one_cpu"],
        "rows_per_cpu_second_together": n_trained / median["each_cpu"],
        "ratio_cpu": ratio["cpu"],
        "ratio_wall": ratio["wall"],
        "waiting_share": 1 - median["each_cpu"] / median["each_wall"],
    }


def main() -> None:
    """Take turns, print, save after each batch size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, nargs="+", default=[1000, 4000, 16000])
    parser.add_argument("--rows-per-turn", type=int, default=32_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--model", choices=MODELS, default="hidden 2, 20 features")
    parser.add_argument("--json", type=Path, default=RESULTS)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with together() as everyone, tempfile.TemporaryDirectory() as folder:
        x, y = write_table(Path(folder), asked.rows)
        rows = StoredRows(lambda index: _read(x, y, index), asked.rows)
        seconds_to_train(MODELS[asked.model], rows, 1000, 2)
        known = json.loads(asked.json.read_text()) if asked.json.exists() else {}
        for batch_size in asked.batches:
            n_steps = max(2, asked.rows_per_turn // batch_size)
            turns = [
                measure(MODELS[asked.model], rows, batch_size, n_steps) for _ in range(asked.turns)
            ]
            found = summary(turns, n_steps * batch_size)
            known[f"{asked.model}, batches of {batch_size}"] = {
                "processes": everyone.size,
                "rows": asked.rows,
                **{key: round(value, 3) for key, value in found.items()},
                "turns": [{k: round(v, 3) for k, v in turn.items()} for turn in turns],
            }
            save(everyone, asked.json, known)


def save(everyone: World, path: Path, known: dict[str, object]) -> None:
    """Write and print, in one of the processes."""
    if everyone.writes:
        text = json.dumps(known, indent=1) + "\n"
        write_whole(path, lambda temporary: temporary.write_text(text))
        print(list(known.items())[-1], flush=True)


def _read(x: np.ndarray, y: np.ndarray, index: torch.Tensor) -> Rows:
    some = index.numpy()
    return Rows(torch.as_tensor(x[some]), torch.as_tensor(y[some, None]))


if __name__ == "__main__":
    main()
