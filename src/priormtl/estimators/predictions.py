"""Predictions, summaries and display of fitted linear models."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from priormtl._arrays import Array, Index, Matrix
from priormtl.data import TaskStatistics
from priormtl.estimators.base import MultiTaskEstimator, score_by_task
from priormtl.estimators.coefficients import build_coef_frame, feature_names
from priormtl.estimators.settings import check_choice
from priormtl.estimators.summarizing import summarize_model
from priormtl.estimators.summary import ModelSummary
from priormtl.estimators.summary_tables import summary_tables
from priormtl.estimators.unseen import UNSEEN, Loans, place_rows
from priormtl.priors import FeaturePrior
from priormtl.tables import to_notebook

__all__ = ["LinearPredictions"]


class LinearPredictions(MultiTaskEstimator):
    """Common behaviour of fitted linear multi-task models."""

    coef_: Array
    intercept_: Array
    tie_weights_: Array
    intercept_strength_: float
    objective_: float
    dual_gap_: float
    n_iter_: int
    feature_prior_: FeaturePrior | None
    task_weight_: Array
    feature_scale_: Array
    fit_intercept: bool | str
    unseen_tasks: str

    def coef_frame(self, *, wide: bool = False) -> Any:
        """Return coefficients and intercepts as a data frame.

        Parameters
        ----------
        wide : bool, default=False
            If False, one row per task and feature, with columns task, feature and
            coefficient; the intercept is listed as feature "(intercept)". If True, one
            row per task and one column per feature.

        Returns
        -------
        data frame
            A frame of the library used in ``fit``, if X was a data frame. Otherwise of
            pandas, polars or pyarrow, whichever is installed. Features without names
            are called x0, x1, and so on.

        Examples
        --------
        >>> from priormtl import MultiTaskRegressor
        >>> model = MultiTaskRegressor(0.0).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
        >>> model.coef_frame().round(3)
           task      feature  coefficient
        0     0  (intercept)          1.0
        1     0           x0          2.0
        """
        check_is_fitted(self)
        return build_coef_frame(self, wide=wide)

    def summary(self) -> ModelSummary:
        """Summarise the fitted model.

        Returns
        -------
        ModelSummary
            Summary that can be exported as data, text, HTML, LaTeX, Markdown or data
            frames.
        """
        check_is_fitted(self)
        return summarize_model(self)

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._learned_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._learned_html()
        return bundle

    def _learned_html(self) -> str:
        """What stands beneath scikit-learn's diagram."""
        if not hasattr(self, "objective_"):
            return ""
        tables = summary_tables(self.summary())
        if self.feature_prior_ is not None:
            tables.append(self.feature_prior_.table(feature_names(self)))
        shown = to_notebook(tables)
        return f"<details><summary>What was learned</summary>{shown}</details>"

    def _row_scores(self, X: Matrix, labels: Any) -> tuple[Array, Index]:
        """Scores of rows; the task of each is that of a lender where it is unseen."""
        if labels is None:
            return super()._row_scores(X, labels)
        behaviour = check_choice("unseen_tasks", self.unseen_tasks, UNSEEN)
        rows = place_rows(self, behaviour, labels, X.shape[0])
        m, loans = len(self.tasks_), rows.loans
        if loans is None:
            return score_by_task(X, rows.codes, self._task_scores), rows.codes
        self._check_loans(loans)
        coef, intercept = loans.coef(self), loans.intercept(self)

        def score(part: Matrix, i: int) -> Array:
            if i < m:
                return self._task_scores(part, i)
            return np.asarray(part @ coef[i - m] + intercept[i - m])

        return score_by_task(X, rows.codes, score), rows.known(m)

    def _check_loans(self, loans: Loans) -> None:
        """Fail if models that are lent together do not mean the same."""

    def _task_scores(self, X: Matrix, i: int) -> Array:
        return np.asarray(X @ self.coef_[i] + self.intercept_[i])

    def _adopt_features(self, statistics: TaskStatistics) -> None:
        """Expect the features of statistics from now on."""
        self._frame_library = None
        self.n_features_in_ = statistics.shape[0]
        if statistics.features is None:
            self.__dict__.pop("feature_names_in_", None)
        else:
            self.feature_names_in_ = np.array(statistics.features, dtype=object)
        encoding = statistics.encoding
        self._adopt_encoding(
            None if encoding is None else encoding.with_means(statistics.pooled_means())
        )
