"""Equal rows: tasks that share images share rows, and repeated rows are one."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Index, Matrix

__all__ = ["Distinct", "find_distinct"]

DIGEST_BYTES = 16


class Distinct(NamedTuple):
    """Which rows are equal; kinds are in an order that depends on contents alone."""

    first: Index  # (u,) position of one row of each kind
    kind: Index  # (n,) kind of each row


def find_distinct(X: Matrix) -> Distinct:
    """Find equal rows by digests of their contents."""
    digests = np.array([_digest(content) for content in _contents(X)])
    _, first, kind = np.unique(digests, return_index=True, return_inverse=True)
    return Distinct(first.astype(np.intp), kind.astype(np.intp))


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def _contents(X: Matrix) -> Iterator[bytes]:
    """Bytes of each row, the same for equal rows."""
    if not issparse(X):
        # Adding zero makes −0 and 0 the same bytes.
        return ((row + 0.0).tobytes() for row in X)
    tidy = X.copy()
    tidy.sum_duplicates()
    tidy.eliminate_zeros()
    ends = zip(tidy.indptr[:-1], tidy.indptr[1:], strict=True)
    return (tidy.indices[a:b].tobytes() + tidy.data[a:b].tobytes() for a, b in ends)
