"""Run units of work once each, on several processes, resumable at any moment.

A unit names everything its rows depend on. Its rows are stored as Parquet under the
digest of these settings, so that a changed setting is another file and no file is ever
out of date. Files are written completely or not at all: a killed run loses only what
was being computed, and two runs in one folder do no harm.
"""

import json
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, as_completed
from dataclasses import dataclass, field
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from priormtl._files import remove_leftovers, write_whole
from priormtl._machine import leaving_interrupts


class Unit(Protocol):
    """A piece of work whose rows depend on its settings and on nothing else."""

    @property
    def label(self) -> str: ...  # for messages
    @property
    def family(self) -> tuple[str, ...]: ...  # units of one take about the same time
    def settings(self) -> Mapping[str, object]:
        """Everything the rows depend on, as JSON values."""

    def compute(self) -> pa.Table: ...


# Finished units.


@dataclass(frozen=True)
class Store:
    """Folder of finished units, one Parquet file each."""

    folder: Path

    def path(self, settings: Mapping[str, object]) -> Path:
        text = _spell_settings(settings).encode()
        return self.folder / f"{blake2b(text, digest_size=16).hexdigest()}.parquet"

    def read(self, settings: Mapping[str, object]) -> pa.Table | None:
        try:
            table = pq.read_table(self.path(settings))
        except (FileNotFoundError, pa.ArrowInvalid, OSError):
            # A file that is damaged, or not ours, is computed anew.
            return None
        return table.replace_schema_metadata(None)

    def write(self, settings: Mapping[str, object], table: pa.Table) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        metadata = {b"priormtl": _spell_settings(settings)}
        write_table(self.path(settings), table.replace_schema_metadata(metadata))


def _spell_settings(settings: Mapping[str, object]) -> str:
    """Settings as JSON, the same text for any order of their keys."""
    return json.dumps(settings, sort_keys=True, allow_nan=False)


def write_table(path: Path, table: pa.Table) -> None:
    buffer = BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    write_whole(path, buffer.getbuffer())


# Running.


class Event(NamedTuple):
    """A unit that has just ended, and what is left."""

    label: str
    done: int
    total: int
    seconds_left: float


class Failure(NamedTuple):
    """A unit without rows, and why."""

    label: str
    reason: str


@dataclass(frozen=True)
class Outcome:
    """Result of a run."""

    computed: int
    found: int
    failures: list[Failure] = field(default_factory=list)
    interrupted: bool = False


def run(
    units: Sequence[Unit],
    store: Store,
    *,
    jobs: int = 1,
    limit: float | None = None,
    force: Callable[[Unit], bool] = lambda unit: False,
    callback: Callable[[Event], None] = lambda event: None,
) -> Outcome:
    """Compute all units that are not in the store; those with equal settings once.

    Results are bit-identical for any number of ``jobs`` (processes). A unit is given up
    after ``limit`` seconds; one for which ``force`` returns True is computed again.
    ``callback`` gets an Event after each unit.
    """
    distinct = list({store.path(unit.settings()): unit for unit in units}.values())
    remove_leftovers(store.folder)  # of a run that was killed while writing
    for unit in distinct:
        if force(unit):
            store.path(unit.settings()).unlink(missing_ok=True)
    pending = [unit for unit in distinct if store.read(unit.settings()) is None]
    found = len(distinct) - len(pending)
    if not pending:
        return Outcome(0, found)
    left = Counter(unit.family for unit in pending)
    times: dict[tuple[str, ...], list[float]] = {}
    failures: list[Failure] = []
    done, interrupted = found, False
    try:
        for unit, work, reason in _compute_all(pending, store, jobs, limit):
            # Warnings of another process are issued here, where they can be filtered.
            for category, words in work.warnings:
                warnings.warn(words, category, stacklevel=2)
            done += 1
            left[unit.family] -= 1
            times.setdefault(unit.family, []).append(work.seconds)
            remaining = _estimate_seconds(left, times, jobs)
            callback(Event(unit.label, done, len(distinct), remaining))
            if reason is not None:
                failures.append(Failure(unit.label, reason))
    except KeyboardInterrupt:
        interrupted = True
    return Outcome(done - found - len(failures), found, failures, interrupted)


def collect(units: Sequence[Unit], store: Store) -> list[pa.Table | None]:
    return [store.read(unit.settings()) for unit in units]


def _estimate_seconds(
    left: Mapping[tuple[str, ...], int],
    times: Mapping[tuple[str, ...], list[float]],
    jobs: int,
) -> float:
    """Time of the units left, from finished ones of the same family, else of all."""
    known = {family: fmean(seconds) for family, seconds in times.items()}
    usual = fmean([one for seconds in times.values() for one in seconds])
    work = sum(count * known.get(family, usual) for family, count in left.items())
    return work / jobs


class _Work(NamedTuple):
    """What a process reports of a unit, besides its rows."""

    seconds: float
    warnings: tuple[tuple[type[Warning], str], ...] = ()  # categories and messages


def _compute_all(
    units: Sequence[Unit], store: Store, jobs: int, limit: float | None
) -> Iterator[tuple[Unit, _Work, str | None]]:
    """Yield each unit when it ends, and the reason if it failed."""
    from pebble import ProcessPool  # noqa: PLC0415

    context = multiprocessing.get_context("spawn")
    pool = ProcessPool(
        jobs, initializer=_start_worker, initargs=(os.getpid(),), context=context
    )
    try:
        with leaving_interrupts():
            futures: dict[Future[_Work], Unit] = {
                pool.schedule(_compute, args=(unit, store), timeout=limit): unit
                for unit in units
            }
        for future in as_completed(futures):
            work, reason = _Work(limit or 0.0), None
            try:
                work = future.result()
            except CancelledError:
                reason = "cancelled"
            except Exception as error:  # whatever a unit raises
                reason = f"{type(error).__name__}: {error}"
                if limit is not None and isinstance(error, TimeoutError):
                    reason = f"took more than {limit:g} s"
            yield futures[future], work, reason
    finally:
        # Also after Ctrl-C: running units are dropped, finished ones are stored.
        pool.stop()
        pool.join()


def _compute(unit: Unit, store: Store) -> _Work:
    begin = time.monotonic()
    # One BLAS thread whatever the number of processes, for identical bits.
    with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
        table = unit.compute()
    store.write(unit.settings(), table)
    distinct = dict.fromkeys((one.category, str(one.message)) for one in caught)
    return _Work(time.monotonic() - begin, tuple(distinct))


def _start_worker(parent: int) -> None:
    """Leave Ctrl-C to the parent, and end when the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# Time of all runs into a folder.


class Elapsed(NamedTuple):
    """Time of all runs so far, and the largest number of processes of one of them."""

    seconds: float = 0.0
    jobs: int = 1
    note: str = ""  # about rows that come from an earlier run


def read_elapsed(folder: Path) -> Elapsed:
    try:
        return Elapsed(**json.loads((folder / "run.json").read_text()))
    except FileNotFoundError:
        return Elapsed()


class Clock:
    """Adds the time from now on to that of earlier runs, killed ones included."""

    def __init__(self, folder: Path, jobs: int) -> None:
        remove_leftovers(folder)  # of a run that was killed while it noted
        before = read_elapsed(folder)
        self.folder, self.before = folder, before._replace(jobs=max(before.jobs, jobs))
        self.begin = self.last = time.monotonic()

    def note(self, every: float = 0.0) -> None:
        """Write the time, if the last note is at least ``every`` seconds old."""
        now = time.monotonic()
        if now - self.last < every:
            return
        self.last = now
        seconds = self.before.seconds + now - self.begin
        content = json.dumps(self.before._replace(seconds=seconds)._asdict())
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / "run.json", content.encode())
