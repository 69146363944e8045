"""MultiTaskEstimator: read tables, fit tasks, predict rows; for us and baselines."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

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
    lives_on_device,
    read_matrix,
    read_targets,
    score_by_task,
    split_offset_columns,
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
from priormtl.estimators.task_folds import column_times
from priormtl.fitted import Fitted
from priormtl.losses import Family


class Rows(NamedTuple):
    """Rows of a table as a model reads them."""

    X: Matrix  # (n, d) features
    labels: object  # (n,) tasks; None: not told
    offset: Array | None = None  # (n,) known part of scores
    crossed: Crossed | None = None  # levels of crossed factors
    time: Array | None = None  # (n,) where a column of X orders them


class MultiTaskEstimator(BaseEstimator, ABC):
    """What all multi-task estimators share: how data come in and scores go out.

    A method needs ``_fit_tasks``, ``_task_scores`` or ``_scores``, and a parameter
    ``task``.
    """

    fitted_: Fitted
    task: object  # column of X, or several from coarse to fine
    tasks_: np.ndarray
    _targets_are_columns: bool
    _frame_library: str | None = None  # of the table that was fitted, if it was a frame
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
            Sample weights: with squared loss the noise of a row of weight w has
            variance σ² / w; counts and classes have whole weights as numbers of
            trials (see the user guide). Rows with weight zero are ignored.

        Returns
        -------
        self
        """
        with unchanged_on_error(self):
            data: TaskData | TaskStatistics | None = None
            if lives_on_device(X):
                data = self._summarize_tensor(X, y, task, sample_weight)
            if data is None:
                table = self._read_table(X, y, task, sample_weight, reset=True)
                data = table.to_tasks()
            self._fit_tasks(data)
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
    def _check_targets(self, y: object) -> np.ndarray:
        """Targets as an array (n,) or (n, m), not yet coded."""

    def _code_targets(
        self, y: np.ndarray, codes: Index | None, tasks: tuple[Hashable, ...]
    ) -> Array:
        """Targets as numbers; NaN where not measured. ``codes``: task of each row."""
        return y

    @property
    def _family(self) -> Family | None:
        """Family of the loss; None for squared loss."""
        return None

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
        y, sample_weight = host_array(y), host_array(sample_weight)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is "
                "None."
            )
        weight = None
        if sample_weight is not None:
            weight = read_targets(sample_weight, "sample_weight")
        targets = self._check_targets(fill_absent(y, weight))
        rows = self._read_rows(X, task, reset=reset)
        check_consistent_length(rows.X, targets)
        if targets.ndim == 2 and targets.shape[1] == 1 and rows.labels is not None:
            targets = targets[:, 0]
        n, codes, kept = len(targets), None, np.ones(len(targets), bool)
        self._targets_are_columns = targets.ndim == 2
        if targets.ndim == 2:
            rivals = {"task labels": rows.labels, "time": rows.time}
            rivals["crossed factors"] = rows.crossed
            for what, given in rivals.items():
                if given is not None:
                    raise ValueError(
                        f"y must have one dimension with {what}: got shape "
                        f"{targets.shape}."
                    )
            tasks = tuple(column_names(y) or range(targets.shape[1]))
        else:
            labels = np.zeros(n, int) if rows.labels is None else rows.labels
            codes, tasks = encode_labels(labels, n)
            if weight is not None and weight.shape == (n,):
                kept = weight > 0  # the others are absent, and must not add a class
        numbers = np.zeros(targets.shape)
        if kept.any():
            own = None if codes is None else codes[kept]
            numbers[kept] = self._code_targets(targets[kept], own, tasks)
        design = self.__dict__.get("design_")
        return Table(rows.X, numbers, codes, tasks, weight, design, *rows[2:])

    def _read_rows(self, X: object, task: object, *, reset: bool = False) -> Rows:
        """Features of X and what goes with them, after scikit-learn's checks."""
        if reset:
            self._adopt_design(None)
        # Arrays that live on a device are read into memory.
        X, labels = host_array(X), host_array(task)
        if isinstance(X, Encoded):
            if reset:
                self._frame_library = None
                self._adopt_design(X.design)
            names = tuple(term.source for term in self.design_.crossed)
            crossed = X.crossed.only(names) if X.crossed is not None and names else None
            rows = Rows(X.X, X.task, X.offset, crossed, X.time)
        else:
            given, time, offset, crossed = vars(self), None, None, None
            column, last = given.get("time"), given.get("fitted_")
            if column is None and last is not None and not reset and last.span:
                column = last.span.column
            design: Design | None = given.get("design_")
            if column is not None:
                kind = None if design is None else design.kind_of(column)
                time = column_times(X, column, kind)  # the column stays a feature
            X, labels = self._split_task(X, labels)
            known = given.get("exposure"), given.get("offset")
            if known != (None, None):
                X, offset = split_offset_columns(X, *known)
            matrix = self._read_features(X, reset=reset)
            design = given.get("design_")
            if design is not None and design.crossed:
                crossed = design.read_levels(X)
            rows = Rows(matrix, labels, offset, crossed, time)
        n, d = rows.X.shape
        if min(n, d) == 0:
            raise ValueError(
                f"Found array with {n} sample(s) and {d} feature(s) (shape={n, d}) "
                f"while a minimum of 1 is required by {type(self).__name__}."
            )
        return rows

    def _split_task(self, X: object, task: object) -> tuple[Any, Any]:
        """X without its task column, and the task labels, if any."""
        if self.task is not None:
            if task is not None:
                raise ValueError(
                    f"task labels were given twice: as the column {self.task!r} of X "
                    "and as an argument."
                )
            return split_task_column(X, self.task)
        column = self.__dict__.get("task_column_")
        if task is None and column is not None:
            # X may have the column that held them before.
            names = column_names(X) or ()
            has_column = set(find_task_columns(column, names)) <= set(names)
            task = split_task_column(X, column)[1] if has_column else None
        return X, task

    def _adopt_design(self, design: Design | None) -> None:
        """Remember how columns of tables became features; None: they had no names."""
        for name in ("design_", "task_column_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        if design is not None:
            self.design_, self.n_features_in_ = design, len(design)
            self.feature_names_in_ = np.array(design.names, dtype=object)
            if design.task is not None:
                self.task_column_ = design.task

    def _read_features(self, X: Any, *, reset: bool) -> Matrix:
        """X as numbers, after scikit-learn's checks of names and counts."""
        frame = None if isinstance(X, np.ndarray) else as_frame(X)
        design, cells = self.__dict__.get("design_"), dict[str, Any]()
        if reset:
            self._frame_library = None if frame is None else frame.implementation.value
            crossed = self._crossed_columns()
            if frame is not None and column_names(X) is not None:
                time = vars(self).get("time")
                design, cells = learn_plain(frame, crossed, time)
                self._adopt_design(design)
            elif crossed:
                raise ValueError(
                    "crossed must name columns of a data frame: got X of type "
                    f"{type(X).__name__}."
                )
        if design is not None and not design.is_plain and column_names(X) is not None:
            return design.encode(X, cells)
        if frame is not None:
            validate_data(self, X, reset=reset, skip_check_array=True)
            return read_matrix(X)
        checked = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=np.float64
        )
        return read_matrix(csr_array(checked) if issparse(checked) else checked)

    def _crossed_columns(self) -> tuple[str, ...]:
        """Columns of X whose levels have effects of their own."""
        return ()

    def _scores(self, X: object, task: object) -> tuple[Array, Index | None]:
        """Scores of rows, and the task of each row; (n, m) and None for all tasks."""
        check_is_fitted(self)
        rows = self._read_rows(X, task)
        if rows.labels is None and self._targets_are_columns:
            columns = [self._task_scores(rows.X, i) for i in range(len(self.tasks_))]
            known = 0.0 if rows.offset is None else rows.offset[:, np.newaxis]
            return np.column_stack(columns) + known, None
        scores, codes = self._row_scores(rows.X, rows.labels)
        return scores if rows.offset is None else scores + rows.offset, codes

    def _row_scores(self, X: Matrix, labels: object) -> tuple[Array, Index]:
        """Scores of rows that have a task each, and that task."""
        codes = self._find_tasks(labels, X.shape[0])
        return score_by_task(X, codes, self._task_scores), codes

    def _task_scores(self, X: Matrix, i: int) -> Array:
        """Scores of rows under task ``i`` (n,)."""
        raise NotImplementedError

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
