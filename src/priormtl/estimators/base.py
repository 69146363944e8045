"""MultiTaskEstimator: read tables, fit tasks, predict rows; for us and baselines."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from priormtl._arrays import Array, Index, Matrix
from priormtl.data import (
    Table,
    TaskData,
    TaskStatistics,
    encode_labels,
    fill_absent,
    find_labels,
    find_task_columns,
    host_array,
    read_matrix,
    read_targets,
    score_by_task,
    split_task_column,
)
from priormtl.design import (
    Crossed,
    Design,
    Encoded,
    as_frame,
    column_names,
    learn_plain,
)
from priormtl.fitted import Fitted
from priormtl.losses import Family


class MultiTaskEstimator(BaseEstimator, ABC):
    """What all multi-task estimators share: how data come in and scores go out.

    A method needs ``_fit_tasks`` and ``_task_scores``, and a ``task`` parameter.
    """

    fitted_: Fitted
    task: Any  # column of X, or several from coarse to fine
    tasks_: np.ndarray
    _targets_are_columns: bool
    _targets_are_numbers: ClassVar[bool] = True  # not classes
    _frame_library: Any = None  # of the table that was fitted, if it was a frame
    design_: Design  # where columns of a table have names
    task_column_: str  # likewise

    def fit(
        self, X: object, y: object, *, task: object = None, sample_weight: object = None
    ) -> Self:
        """Fit the model to all tasks.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or data frame
            Features. If ``task`` was given to the constructor, X also contains the task
            column.
        y : (n,) or (n, m) array
            Targets of the rows, or one column per task if all tasks share X. Missing
            values in (n, m) targets mark targets that were not measured.
        task : (n,) labels, optional
            Task of each row. Tasks are sorted, or in category order for categorical
            labels. By default, all rows belong to one task.
        sample_weight : (n,) array, or (n, m) array with such targets, optional
            Sample weights: the noise of a row of weight w has variance σ² / w. Rows
            with weight zero are ignored.

        Returns
        -------
        self
        """
        with unchanged_on_error(self):
            held = self._summarize_tensor(X, y, task, sample_weight)
            if held is None:
                table = self._read_table(X, y, task, sample_weight, reset=True)
                self._fit_tasks(table.to_tasks())
            else:
                self._fit_tasks(held)
        return self

    def _summarize_tensor(
        self, X: object, y: object, task: object, sample_weight: object
    ) -> TaskStatistics | None:
        """Statistics of rows on a device, where these will do; else None."""
        return None

    def _fit_tasks(self, data: TaskData | TaskStatistics) -> None:
        """Learn from data, then set fitted attributes."""
        raise NotImplementedError

    def _adopt(self, fitted: Fitted) -> None:
        """Become the estimator that learned this, as after ``load``."""
        self._adopt_design(fitted.design)
        self.n_features_in_ = fitted.shape[1]
        self._targets_are_columns = fitted.targets_are_columns
        self._frame_library = fitted.library
        self.fitted_ = fitted

    @abstractmethod
    def _task_scores(self, X: Matrix, i: int) -> Array:
        """Scores of rows under task ``i`` (n,)."""

    @abstractmethod
    def _check_targets(self, y: object) -> np.ndarray:
        """Targets as an array (n,) or (n, m), not yet coded."""

    def _code_targets(
        self, y: np.ndarray, codes: Index | None, tasks: tuple[Hashable, ...]
    ) -> Array:
        """Classes as numbers; NaN where not measured. ``codes``: task of each row."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags

    def _read_table(
        self, X: object, y: object, task: object, sample_weight: object, *, reset: bool
    ) -> Table:
        """Rows in their order; sets n_features_in_ and feature_names_in_."""
        if reset:
            self._adopt_design(None)
        # Arrays that live on a device are read into memory.
        X, y, task, sample_weight = map(host_array, (X, y, task, sample_weight))
        time = self._read_times(X)
        X, labels = self._split_task(X, task)
        X, offset = self._split_offset(X)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is "
                "None."
            )
        weight = None
        if sample_weight is not None:
            weight = read_targets(sample_weight, "sample_weight")
        targets = self._check_targets(fill_absent(y, weight))
        matrix = self._read_features(X, reset=reset)
        design, crossed = self.__dict__.get("design_"), self._read_levels(X)
        check_consistent_length(matrix, targets)
        if targets.ndim == 2 and targets.shape[1] == 1 and labels is not None:
            targets = targets[:, 0]
        if targets.ndim == 2 and crossed is not None:
            raise ValueError(
                "y must have one dimension with crossed factors: got shape "
                f"{targets.shape}."
            )
        if targets.ndim == 2 and time is not None:
            raise ValueError(
                f"y must have one dimension with time: got shape {targets.shape}."
            )
        if targets.ndim == 2:
            table = self._read_columns(matrix, y, targets, labels, weight, design)
            return replace(table, offset=offset)
        n = len(targets)
        codes, tasks = encode_labels(np.zeros(n, int) if labels is None else labels, n)
        self._targets_are_columns = False
        known = offset, crossed, time
        if self._targets_are_numbers and weight is None:
            return Table(matrix, targets, codes, tasks, weight, design, *known)
        # Rows of weight zero are absent: they must not add a class.
        kept = np.ones(n, bool)
        if weight is not None and weight.shape == (n,):
            kept = weight > 0
        numbers = np.zeros(n)
        if kept.any() and self._targets_are_numbers:
            numbers[kept] = targets[kept]
        elif kept.any():
            numbers[kept] = self._code_targets(targets[kept], codes[kept], tasks)
        return Table(matrix, numbers, codes, tasks, weight, design, *known)

    def _read_columns(
        self,
        X: Matrix,
        y: object,
        targets: np.ndarray,
        labels: object,
        weight: Array | None,
        design: Design | None,
    ) -> Table:
        if labels is not None:
            raise ValueError(
                "y must have one dimension where rows have task labels: got shape "
                f"{targets.shape}."
            )
        numbered: tuple[Hashable, ...] = tuple(range(targets.shape[1]))
        tasks = column_names(y) or numbered
        self._targets_are_columns = True
        numbers = targets
        if not self._targets_are_numbers:
            numbers = self._code_targets(targets, None, tasks)
        return Table(X, numbers, None, tuple(tasks), weight, design)

    def _split_task(self, X: object, task: object) -> tuple[Any, Any]:
        """X without its task column, and the task labels, if any."""
        if isinstance(X, Encoded):
            return X, X.task
        if self.task is None:
            return X, self._remembered_labels(X) if task is None else task
        if task is not None:
            raise ValueError(
                f"task labels were given twice: as the column {self.task!r} of X and "
                "as an argument."
            )
        return split_task_column(X, self.task)

    @property
    def _family(self) -> Family | None:
        """Family of the loss; None for squared loss."""
        return None

    def _split_offset(self, X: Any) -> tuple[Any, Array | None]:
        """X without its columns of exposure and offset, and what they add to scores."""
        return X, None

    def _read_times(self, X: Any) -> Array | None:
        """Times of rows (n,), where a column of X orders them; it stays a feature."""
        return None

    def _adopt_design(self, design: Design | None) -> None:
        """Remember how columns of tables became features; None: they had no names."""
        for name in ("design_", "task_column_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        if design is not None:
            self.design_, self.n_features_in_ = design, len(design)
            self.feature_names_in_ = np.array(design.names, dtype=object)
            if design.task is not None:
                self.task_column_ = design.task

    def _remembered_labels(self, X: object) -> Any:
        """Labels in the column that held them before, if X has it."""
        column, names = self.__dict__.get("task_column_"), column_names(X) or ()
        if column is None or not set(find_task_columns(column, names)) <= set(names):
            return None
        return split_task_column(X, column)[1]

    def _read_features(self, X: object, *, reset: bool) -> Matrix:
        """X as numbers, after scikit-learn's checks of names and counts."""
        frame = None if isinstance(X, np.ndarray | Encoded) else as_frame(X)
        design, cells = self.__dict__.get("design_"), dict[str, Any]()
        if reset:
            self._frame_library = None if frame is None else frame.implementation.value
            design = X.design if isinstance(X, Encoded) else None
            if frame is not None and column_names(X) is not None:
                time = vars(self).get("time")
                design, cells = learn_plain(frame, self._crossed_columns(), time)
            elif design is None and self._crossed_columns():
                raise ValueError(
                    "crossed must name columns of a data frame: got X of type "
                    f"{type(X).__name__}."
                )
            self._adopt_design(design)
        if isinstance(X, Encoded):
            matrix: Matrix = X.X
        elif design is not None and not design.is_plain and column_names(X) is not None:
            matrix = design.encode(X, cells)
        elif frame is not None:
            validate_data(self, X, reset=reset, skip_check_array=True)
            matrix = read_matrix(X)
        else:
            checked = validate_data(
                self, X, reset=reset, accept_sparse="csr", dtype=np.float64
            )
            matrix = read_matrix(csr_array(checked) if issparse(checked) else checked)
        if min(matrix.shape) == 0:
            raise ValueError(
                f"Found array with {matrix.shape[0]} sample(s) and {matrix.shape[1]} "
                f"feature(s) (shape={matrix.shape}) while a minimum of 1 is required "
                f"by {type(self).__name__}."
            )
        return matrix

    def _crossed_columns(self) -> tuple[str, ...]:
        """Columns of X whose levels have effects of their own."""
        return ()

    def _read_levels(self, X: object) -> Crossed | None:
        """Levels of crossed factors of the rows of X, without its task column."""
        design: Design | None = self.__dict__.get("design_")
        if design is None or not design.crossed:
            return None
        if isinstance(X, Encoded):
            names = tuple(term.source for term in design.crossed)
            return None if X.crossed is None else X.crossed.only(names)
        return design.read_levels(X)

    def _scores(self, X: object, task: object) -> tuple[Array, Index | None]:
        """Scores of rows, and the task of each row; (n, m) and None for all tasks."""
        check_is_fitted(self)
        X, labels = self._split_task(host_array(X), host_array(task))
        X, offset = self._split_offset(X)
        matrix = self._read_features(X, reset=False)
        if labels is None and self._targets_are_columns:
            columns = [self._task_scores(matrix, i) for i in range(len(self.tasks_))]
            scores = np.column_stack(columns)
            return scores if offset is None else scores + offset[:, np.newaxis], None
        scores, codes = self._row_scores(matrix, labels)
        return scores if offset is None else scores + offset, codes

    def _row_scores(self, X: Matrix, labels: object) -> tuple[Array, Index]:
        """Scores of rows that have a task each, and that task."""
        codes = self._find_tasks(labels, X.shape[0])
        return score_by_task(X, codes, self._task_scores), codes

    def _find_tasks(self, labels: object, n: int) -> Index:
        tasks = self.tasks_.tolist()
        if labels is not None:
            return find_labels(labels, tasks, n)
        if len(tasks) > 1:
            raise ValueError(
                f"task must be given: this model knows {len(tasks)} tasks; pass "
                "task=labels, one per row of X."
            )
        return np.zeros(n, dtype=np.intp)


@contextmanager
def unchanged_on_error(estimator: BaseEstimator) -> Iterator[None]:
    """Leave the estimator as it was when the body fails."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
