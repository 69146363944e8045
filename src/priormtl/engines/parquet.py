"""summarize: one pass over files, in bounded memory, reading ahead of the sums."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from priormtl.engines.accumulate import add_rows
from priormtl.engines.ahead import read_ahead
from priormtl.engines.partial import Partial, Summary
from priormtl.engines.recipe import Recipe
from priormtl.engines.sources import Source, open_source
from priormtl.exceptions import DataFileError

__all__ = ["summarize", "summarize_source"]

Advance = Callable[[int], None]


def summarize(
    source: Any,
    *,
    task: str,
    target: str,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    where: Any = None,
    missing: str = "error",
    folds: int | None = None,
    key: str | None = None,
    seed: int = 0,
    batch_rows: int | None = None,
    advance: Advance | None = None,
) -> Summary:
    """Statistics of tables in files, however large.

    Memory holds the statistics, one piece of rows that is summed up, and one that is
    being read.

    Parameters
    ----------
    source, where
        Files and a filter of their rows; see ``open_source``.
    task, target, weight, features, categories, missing, folds, key, seed
        What columns mean; see ``Recipe``.
    batch_rows : int, optional
        Rows to read at a time; results do not depend on it.
    advance : function, optional
        Called with the number of bytes that were done since its last call.

    Returns
    -------
    Summary
        ``whole`` is what ``fit_statistics`` of regressors takes, ``parts`` (with
        ``folds``) what those that search take.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.dataset as ds
    >>> rows = pa.table({"x": [1.0, 3.0], "y": [0.0, 1.0], "school": ["u", "u"]})
    >>> summary = summarize(ds.dataset(rows), task="school", target="y")
    >>> summary.whole, summary.rows
    (TaskStatistics(1 tasks, 1 features, weight 2), 2)
    """
    recipe = Recipe(
        task, target, weight, features, categories, missing, folds, key, seed
    )
    opened = open_source(source, where)
    return summarize_source(recipe, opened, batch_rows, advance).finish()


def summarize_source(
    recipe: Recipe,
    source: Source,
    batch_rows: int | None = None,
    advance: Advance | None = None,
) -> Partial:
    """Partial of all rows of a source."""
    total: Partial | None = None
    for piece in read_ahead(source.pieces(recipe, batch_rows)):
        with _naming(piece.file):
            total = add_rows(recipe, total, piece.table)
        if advance is not None:
            advance(piece.size)
    if total is None:
        raise DataFileError(f"{source.name} has no rows that where lets through.")
    return total


@contextmanager
def _naming(file: str) -> Iterator[None]:
    """Say in which file something is wrong."""
    try:
        yield
    except ValueError as error:
        raise DataFileError(f"{file}: {error}") from None
