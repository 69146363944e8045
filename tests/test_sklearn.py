"""scikit-learn's own checks, and the tools users put around estimators."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from packaging.version import Version
from sklearn.base import is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.inspection import permutation_importance
from sklearn.metrics import log_loss, make_scorer, mean_absolute_error
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_val_score,
    learning_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from paper_data import PAPER
from priormtl import (
    CopyFeatures,
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
)
from priormtl.baselines import (
    DMTL,
    MKMTL,
    MTFL,
    RMTL,
    CLMTClassifier,
    FedEM,
    MMTFLClassifier,
    MTRLClassifier,
    PooledRidgeClassifier,
    TunedRegressor,
)
from priormtl.datasets import make_related_tasks
from priormtl.estimators.transformers import SplineFeatures

UNLIKE = {
    f"check_sample_weight_equivalence_on_{kind}_data": "names classes by the first row"
    for kind in ("dense", "sparse")
}


def list_wrong_checks(estimator):
    """Checks that are wrong in versions of scikit-learn that we support, or for MTFL.

    Before 1.7 the check fits other classes to repeated rows than to weighted ones. It
    stops fits after five iterations, which amplify rounding errors of MTFL; converged
    fits agree: ``baselines/test_methods.py`` has weights beside repeated rows.
    """
    old = Version(sklearn.__version__) < Version("1.7")
    wrong = UNLIKE if old and is_classifier(estimator) else {}
    if isinstance(estimator, MTFL):
        name = "check_sample_weight_equivalence_on_dense_data"
        wrong = wrong | {name: "stops after five iterations"}
    return wrong


@pytest.mark.filterwarnings("ignore:y should have two classes")
@parametrize_with_checks(
    [
        MultiTaskRegressor(),
        MultiTaskClassifier(),
        MultiTaskRegressorCV(lams=4, cv=3, ties="uniform"),
        CopyFeatures(),
        SplineFeatures(),
    ],
    expected_failed_checks=list_wrong_checks,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow  # they share what reads tables with those above
@pytest.mark.filterwarnings("ignore:y should have two classes")
@parametrize_with_checks(
    [
        MultiTaskRegressor(penalty="nuclear", fit_intercept="tied"),
        MultiTaskRegressor(solver="linear", standardize=True, task_prior="mean"),
        MultiTaskRegressor(outlier_tasks=True, outlier_strength=0.5),
        MultiTaskClassifier(loss="squared"),
        MultiTaskClassifierCV(lams=2, epsilons=[1.0], cv=2, **PAPER),
        DMTL(tol=1e-4),
        CLMTClassifier(),
        FedEM(standardize=True),
        MKMTL(variant="shared", standardize=True, tol=1e-9),
        MMTFLClassifier(),
        MTFL(),
        MTRLClassifier(tol=1e-3),
        RMTL(tol=1e-4),
        PooledRidgeClassifier(task_weight="mean"),
        TunedRegressor("ridge-single", n_settings=3, cv=3, n_jobs=2),
    ],
    expected_failed_checks=list_wrong_checks,
)
def test_scikit_learn_checks_of_other_settings(estimator, check):
    check(estimator)


@pytest.fixture
def table():
    data = make_related_tasks(4, 5, 30, noise=0.3, random_state=0)
    X = pd.DataFrame(data.X, columns=list("abcde"))
    X["school"] = np.array(["n", "s", "e", "w"])[data.task]
    # Folds of neighbouring rows would leave whole tasks out.
    order = np.random.default_rng(0).permutation(len(X))
    return X.iloc[order], data.y[order]


@pytest.fixture
def model():
    return MultiTaskRegressor(task="school", task_prior="mean")


def test_every_scorer_works_with_a_task_column(table, model):
    X, y = table
    for scoring in (
        None,
        "r2",
        "neg_mean_squared_error",
        make_scorer(mean_absolute_error),
    ):
        scores = cross_val_score(model, X, y, scoring=scoring, cv=3)
        assert np.all(np.isfinite(scores))


def test_cross_val_predict_gives_one_value_per_row(table, model):
    X, y = table
    assert cross_val_predict(model, X, y, cv=3).shape == y.shape


def test_grid_search_nests_in_cross_validation(table, model):
    X, y = table
    search = GridSearchCV(model, {"lam": [0.1, 1.0]}, cv=3)
    assert cross_val_score(search, X, y, cv=3).min() > 0.3


def test_learning_curve_and_permutation_importance(table, model):
    X, y = table
    _, _, scores = learning_curve(
        model, X, y, train_sizes=[0.5, 1.0], cv=3, shuffle=True, random_state=0
    )
    assert np.all(np.isfinite(scores))
    fitted = model.fit(X, y)
    importance = permutation_importance(fitted, X, y, n_repeats=2, random_state=0)
    assert importance.importances_mean.shape == (6,)
    assert importance.importances_mean.max() > 0.1


def test_column_transformer_keeps_the_task_column(table, model):
    X, y = table
    scale = make_column_transformer(
        (StandardScaler(), list("abcde")),
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    pipeline = make_pipeline(scale, model).fit(X, y)
    assert pipeline[-1].feature_names_in_.tolist() == list("abcde")
    assert cross_val_score(pipeline, X, y, cv=3).min() > 0.3


def test_task_is_routed_where_scikit_learn_routes(table):
    X, y = table
    labels = X.pop("school").to_numpy()
    with sklearn.config_context(enable_metadata_routing=True):
        model = (
            MultiTaskRegressor().set_fit_request(task=True).set_score_request(task=True)
        )
        params = {"task": labels}
        scores = cross_val_score(model, X, y, params=params, cv=3)
        search = GridSearchCV(model, {"lam": [0.1, 1.0]}, cv=3).fit(X, y, task=labels)
    assert np.all(np.isfinite(scores))
    assert np.isfinite(search.best_score_)


def test_classifier_works_in_cross_validation(table):
    X, y = table
    model = MultiTaskClassifier(task="school")
    scores = cross_val_score(model, X, y > 0, scoring="roc_auc", cv=3)
    assert scores.min() > 0.6


def test_probabilities_are_calibrated_around_a_task_column(table):
    X, y = table
    model = CalibratedClassifierCV(MultiTaskClassifier(task="school"), cv=3)
    shares = model.fit(X, y > 0).predict_proba(X)
    assert shares.shape == (len(X), 2)
    assert log_loss(y > 0, shares[:, 1]) < 0.6


def test_search_inside_cross_validation_reads_the_task_column(table):
    X, y = table
    model = MultiTaskRegressorCV(lams=4, task="school", task_prior="mean")
    assert cross_val_score(model, X, y, cv=3).min() > 0.3
