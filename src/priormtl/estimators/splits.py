"""make_splits: which rows are held out, as users and splitters say it."""

from numbers import Integral
from typing import Any

from sklearn.model_selection import check_cv

from priormtl.data import Table
from priormtl.selection import Split, as_splits, deal_rows, split_by_fold, strata_of

__all__ = ["DEFAULT_FOLDS", "make_splits"]

DEFAULT_FOLDS = 5


def make_splits(
    cv: Any, table: Table, X: Any, y: Any, groups: Any = None, *, by_class: bool
) -> list[Split]:
    """Rows of each split: our folds for a number, else as the splitter says."""
    n_folds = DEFAULT_FOLDS if cv is None else cv
    if isinstance(n_folds, bool) or not isinstance(n_folds, Integral):
        return as_splits(check_cv(cv).split(X, y, groups), len(table))
    if n_folds < 2:
        raise ValueError(f"cv must be at least 2 folds: got {n_folds}.")
    if groups is not None:
        raise ValueError(
            f"groups need a splitter that heeds them: got cv={n_folds}; use "
            "cv=GroupKFold() or LeaveOneGroupOut()."
        )
    return split_by_fold(deal_rows(strata_of(table, by_class=by_class), int(n_folds)))
