"""Binary classification for several related tasks: ``MultiTaskClassifier``."""

from collections.abc import Hashable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if

from priormtl._arrays import Array, Index
from priormtl.checks import check_choice
from priormtl.data import read_targets
from priormtl.estimators.base import MultiTaskEstimator
from priormtl.estimators.labels import class_table, code_classes, read_labels
from priormtl.estimators.linear import FixedStrengths, LinearMultiTask
from priormtl.estimators.sources import fit_rows, read_source_rows
from priormtl.estimators.unseen import Averages
from priormtl.fitted import Fitted

if TYPE_CHECKING:
    from priormtl.engines import Schema


class ClassificationTasks(ClassifierMixin, MultiTaskEstimator):
    """Common behaviour of classifiers: two classes per task, and accuracy."""

    loss: str
    fit_intercept: bool | str
    classes_: np.ndarray | list[np.ndarray]
    _classes: np.ndarray
    _losses: ClassVar[tuple[str, ...]] = ("logistic", "squared")
    _takes_several: ClassVar[bool] = False  # more than two classes

    def fit_source(
        self,
        source: object,
        schema: "Schema | None" = None,
        *,
        where: object = None,
        **columns: Any,
    ) -> Self:
        """Fit the model to tables in files. All rows are read into memory.

        Parameters
        ----------
        source, schema, where, target, task, weight, features, categories, missing
            See :meth:`MultiTaskRegressor.fit_source`. The targets are class labels.

        Returns
        -------
        self

        Notes
        -----
        The logistic loss needs the rows. It cannot be computed from sufficient
        statistics.

        Examples
        --------
        >>> import pyarrow as pa
        >>> rows = {"x": [1, 2, 4, 5], "passed": ["no", "no", "yes", "yes"]}
        >>> table = pa.table(rows | {"school": [1] * 4})
        >>> model = MultiTaskClassifier(0.1, task_prior=None)
        >>> model.fit_source(table, task="school", target="passed").predict(table)
        array(['no', 'no', 'yes', 'yes'], dtype=object)
        """
        if isinstance(self, LinearMultiTask):
            self._need_rows("fit_source")
        rows = read_source_rows(source, schema, where=where, model=self, **columns)
        fitted: Self = fit_rows(self, rows)
        return fitted

    def decision_function(self, X: object, *, task: object = None) -> Array:
        """Return the linear scores of the rows of X.

        Positive scores belong to the second class of the task. With more than two
        classes, there is a column for each of them, and the largest score is predicted.

        Parameters
        ----------
        X, task
            See ``predict``.

        Returns
        -------
        (n,), (n, K) or (n, m) array
            One score per row, or one for each of K > 2 classes. If the model was fitted
            on (n, m) targets and ``task`` is None, one column per task.
        """
        return self._scores(X, task)[0]

    def predict(self, X: object, *, task: object = None) -> np.ndarray:
        """Predict the class labels of the rows of X.

        Parameters
        ----------
        X, task
            See :meth:`MultiTaskRegressor.predict`.

        Returns
        -------
        (n,) or (n, m) array
            One label per row. If the model was fitted on (n, m) targets and ``task`` is
            None, one column per task.
        """
        scores, codes = self._scores(X, task)
        columns = np.arange(len(self.tasks_)) if codes is None else codes
        return self._classes[columns, likeliest(scores, self._n_classes)]

    @available_if(lambda self: self.loss == "logistic")
    def predict_proba(self, X: object, *, task: object = None) -> Array:
        """Return class probabilities. Only available with ``loss="logistic"``.

        Parameters
        ----------
        X, task
            See ``predict``.

        Returns
        -------
        (n, K) or (n, m) array
            Probabilities of the K classes. If the model was fitted on (n, m) targets
            and ``task`` is None, the probability of the second class, one column per
            task, as in scikit-learn's multi-label classifiers.
        """
        scores, _ = self._scores(X, task)
        if scores.ndim == 2 and self._n_classes == 2:
            return expit(scores)
        return probabilities(scores, self._n_classes)

    def score(
        self, X: object, y: object, *, task: object = None, sample_weight: object = None
    ) -> float:
        """Return the accuracy of the predictions.

        Parameters
        ----------
        X, task
            See ``predict``.
        y : (n,) or (n, m) array
            True class labels. Missing values in (n, m) targets are ignored.
        sample_weight : (n,) array, optional
            Weight of each row.

        Returns
        -------
        float
            Fraction of correctly classified targets.
        """
        prediction = self.predict(X, task=task)
        target = read_labels(y)
        weight = None if sample_weight is None else read_targets(sample_weight)
        if prediction.ndim == 1:
            target = np.ravel(target)
            return float(accuracy_score(target, prediction, sample_weight=weight))
        measured = code_classes(target, None, self._classes) != 0
        if weight is None:
            weight = np.ones(len(target))
        cells = np.broadcast_to(weight[:, np.newaxis], measured.shape)[measured]
        return float(np.average((target == prediction)[measured], weights=cells))

    def _check_averages(self, averages: Averages) -> None:
        """Fail if tasks with different classes would be averaged."""
        for k, task in enumerate(averages.unseen):
            classes = self._classes[averages.members(k)]
            other = np.flatnonzero(np.any(classes != classes[0], axis=1))
            if len(other):
                raise ValueError(
                    f"unknown task {task!r} cannot be predicted by a mean of tasks "
                    f"with different classes, such as {classes[0].tolist()} and "
                    f"{classes[other[0]].tolist()}; predict with one of the known "
                    "tasks."
                )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        several = self._takes_several and self.loss == "logistic"
        tags.classifier_tags.multi_class = several
        return tags

    @property
    def _n_classes(self) -> int:
        known = self.__dict__.get("_classes")
        return 2 if known is None else int(known.shape[1])

    def _set_classes(self, table: np.ndarray) -> None:
        """Publish the negative and positive class of each task (m, 2)."""
        self._classes = table
        same = bool(np.all(table == table[0]))
        self.classes_ = table[0].copy() if same else [row.copy() for row in table]

    def _adopt(self, fitted: Fitted) -> None:
        super()._adopt(fitted)
        assert fitted.classes is not None
        self._set_classes(fitted.classes)

    def _check_targets(self, y: object) -> np.ndarray:
        labels = read_labels(y)
        if self._takes_several and labels.ndim == 2 and labels.shape[1] == 1:
            # One column of several classes is one target for each row.
            column = read_labels(labels[:, 0])
            return column if len(np.unique(column)) > 2 else labels
        return labels

    def _code_targets(
        self, y: np.ndarray, codes: Index | None, tasks: tuple[Hashable, ...]
    ) -> Array:
        # A task of one class has no finite free intercept under logistic loss.
        loss = check_choice("loss", self.loss, self._losses)
        lone_class = loss == "squared" or self.fit_intercept is not True
        several = self._takes_several and loss == "logistic" and codes is not None
        table = class_table(y, codes, tasks, lone_class=lone_class, several=several)
        self._set_classes(table)
        if table.shape[1] != 2:
            return np.searchsorted(table[0], y).astype(np.float64)
        numbers = code_classes(y, codes, table)
        return np.where(numbers == 0, np.nan, numbers)


@dataclass(eq=False, repr=False)
class MultiTaskClassifier(ClassificationTasks, FixedStrengths):
    """Classification for several related tasks, with prior information.

    Minimises the following objective over the coefficients P (features × tasks) and
    the intercepts b, with classes coded as −1 and +1::

        Σ w log(1 + exp(−y (x p_i + b_i)))
            + lam ‖P‖₂,₁ + theta/2 ‖D P‖² + epsilon/2 tr(P L Pᵀ)

    With ``loss="squared"`` the first line is 1/2 Σ w (x p_i + b_i − y)², as in the
    tables of the paper. The two classes of a task may have any labels.

    With more than two classes, the same in all tasks, each class has coefficients
    p_ik and an intercept b_ik in each task, and the first line is the multinomial loss
    Σ w (log Σ_k exp(x p_ik + b_ik) − x p_iy − b_iy). The penalty selects features for
    all tasks and classes; relations and coupling act on each class.

    Parameters
    ----------
    lam, theta, epsilon, feature_prior, task_prior, penalty, fit_intercept, \
intercept_strength, feature_weights, ties, standardize, solver, tol, max_iter, \
warm_start, task, unseen_tasks, outlier_tasks, outlier_strength, device, crossed
        See :class:`MultiTaskRegressor`. With logistic loss ``outlier_strength`` is in
        units of the noise.
    loss : {"logistic", "squared"}, default="logistic"
        Loss function.

    Attributes
    ----------
    classes_ : (K,) array or list of m arrays
        Class labels; of two, the second one is the positive class. If tasks have
        different pairs of classes, a list with one array per task. If all rows have
        the same class, it has probability one, and coefficients are zero.
    coef_, intercept_ : (m, d) and (m,) arrays
        With K > 2 classes, (m, K, d) and (m, K) arrays. Free intercepts of a task sum
        to zero.
    tasks_, objective_, dual_gap_, n_iter_, tie_weights_, intercept_strength_, \
task_sd_, intercept_sd_, n_features_in_, feature_names_in_, feature_prior_, \
task_weight_, feature_scale_, shared_coef_, own_coef_, outlier_tasks_, \
outlier_strength_, crossed_effects_, crossed_sd_
        See :class:`MultiTaskRegressor`. Effects of crossed levels are log-odds.

    See Also
    --------
    MultiTaskClassifierCV : Selects lam, theta and epsilon by cross-validation.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from priormtl import MultiTaskClassifier, one_vs_one
    >>> X, y, task = one_vs_one(*load_iris(return_X_y=True))
    >>> model = MultiTaskClassifier(lam=0.5).fit(X, y, task=task)
    >>> model.tasks_.tolist()
    ['0 vs 1', '0 vs 2', '1 vs 2']
    >>> bool(model.score(X, y, task=task) > 0.95)
    True
    """

    _: KW_ONLY
    loss: str = "logistic"

    _takes_several: ClassVar[bool] = True


def likeliest(scores: Array, n_classes: int) -> Index:
    """Position of the likeliest class at each score, or row of scores (n, K > 2)."""
    if n_classes > 2:
        return np.argmax(scores, axis=1)
    return ((scores > 0) & (n_classes == 2)).astype(np.intp)


def probabilities(scores: Array, n_classes: int) -> Array:
    """Probabilities of the classes (n, K) at scores (n,), or (n, K) of K > 2."""
    if n_classes > 2:
        return np.asarray(softmax(scores, axis=1))
    both = np.column_stack([expit(-scores), expit(scores)])
    return both if n_classes == 2 else np.ones((len(scores), 1))


# Scores by task, for curves and their areas


class TaskScores(NamedTuple):
    """Rows of one task: which are of its second class, and how they score."""

    task: Hashable
    positive: np.ndarray  # (n,) bool
    scores: Array  # (n,) larger for the second class


def separate_tasks(
    model: object, X: object, y: object, *, task: object = None
) -> list[TaskScores]:
    """Score rows by a fitted classifier, for each of its tasks that has any.

    Parameters
    ----------
    model : fitted classifier of tasks
        Such as ``MultiTaskClassifier``.
    X, y, task
        As in :meth:`MultiTaskClassifier.fit`; a missing label in (n, m) targets was
        not measured.

    Returns
    -------
    list of TaskScores
        In the order of ``tasks_``.
    """
    if not isinstance(model, ClassificationTasks):
        raise TypeError(
            "model must be a classifier of tasks, such as MultiTaskClassifier: got "
            f"{type(model).__name__}."
        )
    if model._n_classes != 2:
        raise ValueError(
            f"model must have two classes: got {model._n_classes}. Use one_vs_rest."
        )
    scores, codes = model._scores(X, task)
    labels = read_labels(y)
    labels = labels if codes is None else np.ravel(labels)
    if labels.shape != scores.shape:
        raise ValueError(
            f"y must have one label for each score: got shape {labels.shape} for "
            f"{scores.shape}."
        )
    coded = code_classes(labels, codes, model._classes)
    owner = np.arange(coded.shape[1]) if codes is None else codes
    return [
        TaskScores(label, coded[rows] > 0, scores[rows])
        for i, label in enumerate(model.tasks_.tolist())
        if (rows := (owner == i) & (coded != 0)).any()
    ]
