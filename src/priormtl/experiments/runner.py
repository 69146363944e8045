"""run: units of work, once each, on several processes, resumable at any moment."""

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from threadpoolctl import threadpool_limits

from priormtl._processes import leaving_interrupts
from priormtl.experiments.store import Store, digest_settings

__all__ = ["Event", "Failure", "Outcome", "Unit", "collect", "run"]

PARENT_LOOKS = 1.0  # seconds between a worker's looks whether its parent still lives


class Unit(Protocol):
    """A piece of work whose rows depend on its settings and on nothing else."""

    @property
    def label(self) -> str:
        """What people call it."""

    @property
    def family(self) -> tuple[str, ...]:
        """Units of one family take about the same time."""

    def settings(self) -> Mapping[str, Any]:
        """Everything the rows depend on, as JSON values."""

    def compute(self) -> pa.Table:
        """The rows."""


class Event(NamedTuple):
    """A unit that has just ended, and what is left."""

    label: str
    done: int
    total: int
    seconds_left: float


class Failure(NamedTuple):
    """A unit that gave no rows, and why."""

    label: str
    reason: str


@dataclass(frozen=True)
class Outcome:
    """What a run did."""

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
    tell: Callable[[Event], None] = lambda event: None,
) -> Outcome:
    """Compute all units that the store does not hold.

    Parameters
    ----------
    jobs : int
        Processes. Rows do not depend on their number.
    limit : float, optional
        Seconds after which a unit is given up.
    force : callable
        Units for which it is true are computed anew.
    tell : callable
        Called after each unit.
    """
    distinct = {digest_settings(unit.settings()): unit for unit in units}
    pending = _find_pending(list(distinct.values()), store, force)
    found = len(distinct) - len(pending)
    if not pending:
        return Outcome(0, found)
    progress = _Progress(len(distinct), found, pending, jobs, tell)
    interrupted = False
    failures: list[Failure] = []
    try:
        for unit, work, reason in _compute_all(pending, store, jobs, limit):
            _warn_here(work)
            progress.end(unit, work.seconds)
            if reason is not None:
                failures.append(Failure(unit.label, reason))
    except KeyboardInterrupt:
        interrupted = True
    computed = progress.done - found - len(failures)
    return Outcome(computed, found, failures, interrupted)


def _find_pending(
    units: Sequence[Unit], store: Store, force: Callable[[Unit], bool]
) -> list[Unit]:
    """Units without rows, after those that are forced have lost theirs."""
    store.tidy()
    for unit in units:
        if force(unit):
            store.forget(unit.settings())
    return [unit for unit in units if store.read(unit.settings()) is None]


def collect(units: Sequence[Unit], store: Store) -> list[pa.Table | None]:
    """Rows of each unit, None where they are not there; computes nothing."""
    return [store.read(unit.settings()) for unit in units]


def _compute_all(
    units: Sequence[Unit], store: Store, jobs: int, limit: float | None
) -> Iterator[tuple[Unit, "_Work", str | None]]:
    """Yield each unit when it ends, with what it took, and why where it failed."""
    from pebble import ProcessPool  # noqa: PLC0415

    context = multiprocessing.get_context("spawn")
    pool = ProcessPool(
        jobs, initializer=_settle, initargs=(os.getpid(),), context=context
    )
    futures: dict[Future[_Work], Unit] = {}
    try:
        with leaving_interrupts():
            for unit in units:
                future = pool.schedule(_compute, args=(unit, store), timeout=limit)
                futures[future] = unit
        waiting = set(futures)
        while waiting:
            ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ended:
                reason = _reason(future, limit)
                work = future.result() if reason is None else _Work(limit or 0.0)
                yield futures[future], work, reason
    finally:
        # Also after Ctrl-C: what is being computed is dropped, what is done is stored.
        pool.stop()
        pool.join()


def _reason(future: "Future[_Work]", limit: float | None) -> str | None:
    """Why a unit failed; None if it did not."""
    try:
        error = future.exception()
    except CancelledError:
        return "cancelled"
    if error is None:
        return None
    if isinstance(error, TimeoutError):
        return f"took more than {limit:g} s"
    return f"{type(error).__name__}: {error}"


class _Work(NamedTuple):
    """What came of a unit, besides its rows."""

    seconds: float
    warnings: tuple[tuple[type[Warning], str], ...] = ()  # kinds and words


def _compute(unit: Unit, store: Store) -> _Work:
    """Work of one process: compute and keep."""
    begin = time.monotonic()
    # One thread of BLAS whatever the number of processes: equal bits.
    with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
        table = unit.compute()
    store.write(unit.settings(), table)
    told = dict.fromkeys((one.category, str(one.message)) for one in caught)
    return _Work(time.monotonic() - begin, tuple(told))


def _warn_here(work: _Work) -> None:
    """Warnings of another process, where somebody can hear and filter them."""
    for kind, words in work.warnings:
        warnings.warn(words, kind, stacklevel=4)


def _settle(parent: int) -> None:
    """Leave Ctrl-C to the parent, also where masks do not; do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_LOOKS)
    os._exit(1)


class _Progress:
    """Counts units and guesses the time left from units of the same family."""

    def __init__(
        self,
        total: int,
        done: int,
        pending: Sequence[Unit],
        jobs: int,
        tell: Callable[[Event], None],
    ) -> None:
        self.total, self.done, self.jobs, self.tell = total, done, jobs, tell
        self.left: dict[tuple[str, ...], int] = {}
        for unit in pending:
            self.left[unit.family] = self.left.get(unit.family, 0) + 1
        self.times: dict[tuple[str, ...], list[float]] = {}

    def end(self, unit: Unit, seconds: float) -> None:
        """Count a unit that has ended."""
        self.times.setdefault(unit.family, []).append(seconds)
        self.done += 1
        self.left[unit.family] -= 1
        self.tell(Event(unit.label, self.done, self.total, self._seconds_left()))

    def _seconds_left(self) -> float:
        known = {family: fmean(times) for family, times in self.times.items()}
        usual = fmean([time for times in self.times.values() for time in times])
        work = sum(count * known.get(kin, usual) for kin, count in self.left.items())
        return work / self.jobs
