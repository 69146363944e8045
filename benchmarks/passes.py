"""Passes over files, measured in a process of their own with all cores at hand.

``python -m benchmarks.passes speed FOLDER SORTED_FOLDER REPEATS`` prints the seconds
of our pass and of reading the same columns and multiplying them once; ``memory FOLDER``
the most memory that a pass took.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from threadpoolctl import threadpool_limits

from benchmarks.big_table import FEATURES, FILE_ROWS
from benchmarks.machine import process_memory
from priormtl import engines

Action = Callable[[], Any]
MIB = 2**20


def compare(folder: str, sorted_folder: str, repeats: int) -> dict[str, Any]:
    """Seconds of every pass, each round all of them, the first round for nothing."""
    plain = Baseline(folder)
    passes: dict[str, Action] = {
        "numbers": lambda: summarize(folder),
        "texts": lambda: summarize(folder, task="school"),
        "sorted": lambda: summarize(sorted_folder),
        "folds": lambda: summarize(folder, folds=5, key="row"),
        "double": lambda: plain.multiply(np.float64),
        "single": lambda: plain.multiply(np.float32),
    }
    seconds: dict[str, list[float]] = {name: [] for name in passes}
    for _ in range(repeats + 1):
        for name, action in passes.items():
            begin = perf_counter()
            action()
            seconds[name].append(perf_counter() - begin)
    return {name: values[1:] for name, values in seconds.items()}


def summarize(folder: str, task: str = "task", **dealing: Any) -> Any:
    """Our pass."""
    columns = {"target": "y", "features": FEATURES}
    return engines.summarize(folder, task=task, **columns, **dealing)


class Baseline:
    """Read the columns of a file into one matrix, multiply it once; file by file."""

    def __init__(self, folder: str) -> None:
        self.files = sorted(Path(folder).iterdir())
        # Used again, so that no time goes into new memory.
        cells = FILE_ROWS * (len(FEATURES) + 1)
        self.memory = np.ones(cells)

    def multiply(self, dtype: Any) -> np.ndarray:
        """XᵀX of the target and all features, over all rows whatever their task."""
        total = np.zeros((len(FEATURES) + 1,) * 2)
        for file in self.files:
            X = self.read(file, dtype)
            total += X.T @ X
        return total

    def read(self, file: Path, dtype: Any) -> np.ndarray:
        """Target and features of a file; its tasks are read and left alone."""
        names = ["y", *FEATURES]
        table = parquet.read_table(file, columns=["task", *names])
        shape = table.num_rows, len(names)
        cells = self.memory.view(dtype)[: shape[0] * shape[1]]
        X = cells.reshape(shape, order="F")
        for column, name in zip(X.T, names, strict=True):
            column[:] = table[name].to_numpy()
        return X


def weigh(folder: str) -> dict[str, float]:
    """Memory of a process that does one pass."""
    begin = perf_counter()
    rows = summarize(folder).rows
    return {
        "rows": rows,
        "seconds": perf_counter() - begin,
        # Of this program alone; what rusage tells begins with that of its parent.
        "peak": process_memory("VmHWM") / MIB,
    }


def use_all_cores() -> None:
    """Undo what the other benchmarks want: one thread for everybody."""
    cores = len(os.sched_getaffinity(0))
    pa.set_cpu_count(cores)
    threadpool_limits(cores)


if __name__ == "__main__":
    use_all_cores()
    what, *arguments = sys.argv[1:]
    if what == "speed":
        found = compare(arguments[0], arguments[1], int(arguments[2]))
    else:
        found = weigh(arguments[0])
    print(json.dumps(found))
