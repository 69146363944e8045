"""Blocks of tasks: rows of many small tasks, where they are, and sums over them.

With tasks tied to their mean, whatever a fit needs is a sum over tasks of what each
task can tell from its own rows. A `Block` holds the rows of some tasks; `Tasks` is all
blocks, in memory, in files, or on the workers of a cluster, and adds up what a step
says of each. Steps are pure functions of a block, so that it does not matter where,
when, or how often they are computed.

Rows are [1, x, y] (columns 0, 1 … d, d + 1). For squared loss they are multiplied by
the root of their weight, and turned into d + 2 rows of the same products where a task
has more: these are its statistics (a triangular factor of them, which loses no digits).
"""

import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from priormtl._arrays import Array, Index

T = TypeVar("T")
Sums = tuple[Any, ...]  # arrays and numbers, which are added one by one

EVEN = 0.7  # fewest rows of a task in a chunk, of the most rows
BLOCK = 2**22  # numbers in the rows of a block, about: 32 MB


class Chunk(NamedTuple):
    """Tasks of about as many rows each; the rows that are lacking are zero."""

    rows: Array  # (b, r, d + 2)
    places: Index  # (b,) tasks, by their number in the block
    weight: Array | None = None  # (b, r) of rows; None: rows are multiplied by roots
    offset: Array | None = None  # (b, r) known part of scores

    def weighted(self) -> Array:
        """Rows times the roots of their weights (b, r, d + 2)."""
        if self.weight is None:
            return self.rows
        return self.rows * np.sqrt(self.weight)[:, :, np.newaxis]


class SortedRows(NamedTuple):
    """Rows in memory, task after task."""

    tasks: np.ndarray  # (m,) labels
    starts: Index  # (m + 1,) first row of each task
    X: Array  # (n, d)
    y: Array  # (n,)
    weight: Array  # (n,)
    offset: Array | None = None  # (n,)

    def only(self, part: slice) -> "SortedRows":
        """Some consecutive tasks."""
        first, last = self.starts[part.start], self.starts[part.stop]
        starts = self.starts[part.start : part.stop + 1] - first
        X, y, weight = (column[first:last] for column in self[2:5])
        offset = None if self.offset is None else self.offset[first:last]
        return SortedRows(self.tasks[part], starts, X, y, weight, offset)


class Block(NamedTuple):
    """Rows of some tasks."""

    tasks: np.ndarray  # (m,) labels
    counts: Index  # (m,) rows
    means: Array  # (m, d + 2) weight of each task, and weighted means of x and y
    chunks: tuple[Chunk, ...]

    @classmethod
    def of(cls, sorted_rows: "SortedRows", *, as_rows: bool = False) -> Self:
        """Block of some tasks.

        ``as_rows`` keeps the rows of a task as they are, for losses that need them.
        """
        tasks, starts, X, y, weight, offset = sorted_rows
        counts, d = np.diff(starts), X.shape[1]
        means = np.empty((len(counts), d + 2))
        chunks = []
        for places in _even_tasks(counts, d + 2):
            r = int(counts[places].max(initial=1))
            index = starts[places, np.newaxis] + np.arange(r)
            exists = np.arange(r) < counts[places, np.newaxis]
            index = np.where(exists, index, starts[places, np.newaxis])
            share = np.where(exists, weight[index], 0.0)
            rows = np.empty((len(places), r, d + 2))
            rows[:, :, 0] = 1.0
            rows[:, :, 1:-1] = X[index]
            rows[:, :, -1] = y[index]
            sums = np.matmul(share[:, np.newaxis, :], rows)[:, 0]
            means[places] = sums
            means[places, 1:] /= sums[:, :1]
            known = None if offset is None else np.where(exists, offset[index], 0.0)
            if as_rows:
                chunks.append(Chunk(rows, places, share, known))
                continue
            if known is not None:
                rows[:, :, -1] -= known
            rows *= np.sqrt(share)[:, :, np.newaxis]
            chunks.append(Chunk(compress(rows), places))
        return cls(tasks, counts, means, tuple(chunks))

    @property
    def shape(self) -> tuple[int, int]:
        """Features and tasks."""
        return self.means.shape[1] - 2, len(self.means)

    def only(self, chosen: np.ndarray) -> Self:
        """Some tasks, which a mask chooses."""
        number = np.cumsum(chosen) - 1
        chunks = []
        for chunk in self.chunks:
            kept = chosen[chunk.places]
            if kept.any():
                places, w, known = (
                    number[chunk.places[kept]],
                    chunk.weight,
                    chunk.offset,
                )
                w = None if w is None else w[kept]
                known = None if known is None else known[kept]
                chunks.append(Chunk(chunk.rows[kept], places, w, known))
        parts = self.tasks[chosen], self.counts[chosen], self.means[chosen]
        return type(self)(*parts, tuple(chunks))


def _even_tasks(counts: Index, width: int) -> Iterator[Index]:
    """Tasks of about as many rows, so many that a chunk holds them."""
    order = np.argsort(-counts, kind="stable")
    sizes, begin = counts[order], 0
    chunk = 2**17  # numbers that are worked on at once: 1 MB, which caches hold
    while begin < len(order):
        most = int(sizes[begin])
        end = begin + max(1, chunk // (max(most, 1) * width))
        # Sizes fall: the first one that is too small ends the chunk.
        even = np.searchsorted(-sizes[begin:end], -EVEN * most, side="right")
        end = begin + max(1, int(even))
        yield order[begin:end]
        begin = end


def compress(rows: Array) -> Array:
    """Rows (b, r, k) with the same products, of which there are at most k."""
    if rows.shape[1] <= rows.shape[2]:
        return rows
    return np.ascontiguousarray(np.linalg.qr(rows, mode="r"))


def chosen_tasks(tasks: np.ndarray, share: float) -> np.ndarray:
    """A share of the tasks by hashes of their labels, whatever order they come in."""
    if tasks.dtype.kind in "iu":
        mixed = tasks.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        number = (mixed >> np.uint64(32)).astype(np.float64)
    else:
        texts = (str(task).encode() for task in tasks.tolist())
        number = np.fromiter(map(zlib.crc32, texts), np.float64, len(tasks))
    return number < share * 2.0**32


class Tasks(Protocol):
    """All tasks, in blocks that are where they are."""

    def add(self, step: Callable[[Block], Sums]) -> Sums:
        """Sums of what a step says of each block."""

    def collect(self, step: Callable[[Block], T]) -> list[T]:
        """What a step says of each block, in their order."""

    def mapped(self, step: Callable[[Block], Block]) -> "Tasks":
        """The same tasks with other rows, computed where they are and kept there."""


def add_sums(parts: Iterable[Sums]) -> Sums:
    """Sum of some sums, in their order."""
    total: list[Any] = []
    for part in parts:
        if not total:
            total = [np.array(x, dtype=np.float64) for x in part]
            continue
        for k, x in enumerate(part):
            total[k] += x
    return tuple(total)


class HeldTasks(NamedTuple):
    """Blocks in memory; results do not depend on the number of threads."""

    blocks: tuple[Block, ...]
    n_threads: int = 1

    @classmethod
    def of(cls, rows: SortedRows, *, as_rows: bool = False, n_threads: int = 1) -> Self:
        """Tasks of rows that are in memory."""

        def build(part: slice) -> Block:
            return Block.of(rows.only(part), as_rows=as_rows)

        parts = divide(rows.starts, rows.X.shape[1])
        return cls(tuple(_in_threads(build, parts, n_threads)), n_threads)

    def add(self, step: Callable[[Block], Sums]) -> Sums:
        return add_sums(_in_threads(step, self.blocks, self.n_threads))

    def collect(self, step: Callable[[Block], T]) -> list[T]:
        return list(_in_threads(step, self.blocks, self.n_threads))

    def mapped(self, step: Callable[[Block], Block]) -> "HeldTasks":
        return self._replace(blocks=tuple(self.collect(step)))


def divide(starts: Index, d: int) -> list[slice]:
    """Tasks of each block, by where their rows start."""
    kept = np.minimum(np.diff(starts), d + 2)
    sizes = np.concatenate([[0], np.cumsum(kept * (d + 2))])
    ends = [0]
    while ends[-1] < len(kept):
        end = int(np.searchsorted(sizes, sizes[ends[-1]] + BLOCK, side="right")) - 1
        ends.append(min(max(end, ends[-1] + 1), len(kept)))
    return [slice(a, b) for a, b in pairwise(ends)]


def _in_threads(
    step: Callable[[Any], T], items: Sequence[Any], n_threads: int
) -> Iterator[T]:
    """Results of a step in the order of the items, a few of them ahead."""
    if n_threads <= 1 or len(items) <= 1:
        yield from map(step, items)
        return
    with ThreadPoolExecutor(n_threads, thread_name_prefix="priormtl-tasks") as pool:
        yield from pool.map(step, items)


def label_array(labels: Sequence[Hashable]) -> np.ndarray:
    """Labels as an array, each as it is unless all are of one plain type."""
    kinds = set(map(type, labels))
    if len(kinds) == 1 and kinds <= {int, str, float, np.int64, np.str_}:
        return np.array(labels)
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array
