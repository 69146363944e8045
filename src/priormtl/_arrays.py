"""Types of arrays that all packages share, and their order in memory.

Shape letters: ``n`` rows, ``d`` features, ``m`` tasks; ``P`` is (d, m).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Matrix = Array | csr_array
LARGE = 2**22  # numbers: 32 MB, which take longer to read than a loop over tasks
TILE = 16  # tasks moved at a time: two cache lines of numbers


def tasks_last(t: int, d: int, fill: Callable[[int, Array], None]) -> Array:
    """Matrices (t, d, d) that ``fill`` writes, with tasks last in memory.

    Solvers read them in this order. Tiles are transposed while they are in cache, so
    that memory for all matrices, whose first touch is expensive, is taken once.
    """
    out, tile = np.empty((d, d, t)), np.empty((min(t, TILE), d, d))
    for start in range(0, t, TILE):
        part = tile[: t - start]
        for k, matrix in enumerate(part):
            fill(start + k, matrix)
        out[:, :, start : start + TILE] = part.transpose(1, 2, 0)
    return out.transpose(2, 0, 1)


def restrict_tasks_last(matrices: Array, rows: Index | None = None) -> Array:
    """Some rows and columns of matrices (t, d, d), or all, tasks last in memory."""
    if matrices.size <= LARGE:  # NumPy leaves them in this order
        if rows is not None:
            return matrices[:, rows[:, np.newaxis], rows]
        return np.array(matrices.transpose(1, 2, 0), order="C").transpose(2, 0, 1)
    place = ... if rows is None else np.ix_(rows, rows)

    def fill(i: int, out: Array) -> None:
        out[:] = matrices[i][place]

    k = matrices.shape[1] if rows is None else len(rows)
    return tasks_last(len(matrices), k, fill)
