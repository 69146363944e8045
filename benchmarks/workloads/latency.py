"""How long a user waits: import, first fit, and tiny fits once warm."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np

from benchmarks.environments import ROOT
from benchmarks.report import (
    Bar,
    Report,
    Section,
    Table,
    milliseconds,
    seconds_of,
    times,
)
from benchmarks.timing import Seconds
from priormtl import MultiTaskRegressor

TITLE = "Latency"
TINY_LIMIT = 3e-3
SCRIPT = """
import json, time
def look():
    return [time.process_time(), time.perf_counter()]
begin = look()
from priormtl import MultiTaskRegressor
imported = look()
import numpy as np
rng = np.random.default_rng(0)
X, y = rng.standard_normal((150, 10)), rng.standard_normal(150)
task = np.arange(150) % 3
start = look()
MultiTaskRegressor().fit(X, y, task=task)
print(json.dumps([begin, imported, start, look()]))
"""


Pair = tuple[float, float]  # CPU and wall


class Wait(NamedTuple):
    """Seconds of the processor, and by the clock on the wall."""

    cpu: Seconds
    wall: Seconds


def measure(quick: bool) -> Report:
    """Fresh processes with an empty and a filled cache, then many tiny fits here."""
    repeats = 2 if quick else 5
    imports, cold, warm = _first_fits(repeats)
    stacked, shared = _tiny_fits(40 * repeats)
    tiny = max(stacked.cpu, shared.cpu)
    bars = [
        _bar("tiny fit under 3 ms once warm", tiny, TINY_LIMIT),
        _bar("first fit in a fresh process ≤ 1 s with a warm cache", warm.cpu, 1.0),
        _bar("first fit in a fresh process ≤ 5 s with an empty cache", cold.cpu, 5.0),
    ]
    waits = {
        "from priormtl import MultiTaskRegressor": imports,
        "first fit, compiled code not yet cached": cold,
        "first fit, compiled code cached": warm,
        "tiny fit, own rows (3 tasks of 50 rows, 10 features)": stacked,
        "tiny fit, shared rows (50 rows, 3 targets)": shared,
    }
    rows = [[name, *map(milliseconds, wait)] for name, wait in waits.items()]
    table = Table(["what", "CPU, ms", "wall, ms"], rows)
    note = (
        "Medians of repeats (shortest–longest). CPU time counts; on a machine with "
        "nothing else to do the wall agrees."
    )
    return Report(TITLE, note, bars, [Section("Waits", "", table)], waits)


def _bar(goal: str, seconds: float, limit: float) -> Bar:
    return Bar(goal, f"{times(1e3 * seconds)} ms", seconds <= limit)


def _first_fits(repeats: int) -> tuple[Wait, Wait, Wait]:
    """Import, first fit with an empty cache, first fit with a filled one."""
    cold, runs = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(_fresh_process(cache)[1])
            runs += [_fresh_process(cache) for _ in range(2)]
    imports, warm = zip(*runs, strict=True)
    found = _join(imports), _join(cold), _join(warm)
    words = ", ".join(f"{seconds_of(wait.cpu)} s" for wait in found)
    print(f"  import, cold and warm first fit: {words}", flush=True)
    return found


def _fresh_process(cache: str) -> tuple[Pair, Pair]:
    """Waits for the import and for the first fit."""
    settings = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env=settings,
        capture_output=True,
        text=True,
        check=True,
    )
    begin, imported, start, end = json.loads(done.stdout)
    return _between(begin, imported), _between(start, end)


def _tiny_fits(repeats: int) -> tuple[Wait, Wait]:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((150, 10)), rng.standard_normal(150)
    task = np.repeat(np.arange(3), 50)
    Y = rng.standard_normal((50, 3))
    model = MultiTaskRegressor()
    stacked = _wait(lambda: model.fit(X, y, task=task), repeats)
    shared = _wait(lambda: model.fit(X[:50], Y), repeats)
    words = f"{milliseconds(stacked.cpu)} and {milliseconds(shared.cpu)} ms"
    print(f"  tiny fits: {words}", flush=True)
    return stacked, shared


def _wait(fit: Callable[[], Any], repeats: int) -> Wait:
    found = []
    for _ in range(repeats + 3):
        begin = process_time(), perf_counter()
        fit()
        found.append(_between(begin, (process_time(), perf_counter())))
    return _join(found[3:])


def _between(begin: Sequence[float], end: Sequence[float]) -> Pair:
    return end[0] - begin[0], end[1] - begin[1]


def _join(found: Sequence[Pair]) -> Wait:
    return Wait(*map(Seconds, zip(*found, strict=True)))
