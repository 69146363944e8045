"""NUMBA_DISABLE_JIT=1, as debuggers and coverage need it, changes no result."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressor,
    TaskPrior,
    tabular_model,
)
from priormtl.baselines import DMTL, MKMTL, MMTFL, RMTL
from priormtl.datasets import make_related_tasks
from priormtl.losses import Squared
from priormtl.trees import Booster, grow
from processes import beside_tests

m, n, d = 4, 12, 5
X, y, task = make_related_tasks(m, d, n, random_state=0)[:3]
X = np.asarray(X)
wide = np.random.default_rng(0).normal(size=(m * 4, 12))
SIGNS = FeaturePrior.nonnegative([0]) + FeaturePrior.common([1])
NESTED = TaskPrior.nested({0: "a", 1: "a", 2: "b", 3: "b"})
GROUPS = TaskPrior.groups({"a": [0, 1], "b": [2, 3]})
RING = TaskPrior.from_graph([(0, 1), (1, 2), (2, 3), (3, 0)])
STEPS = ("gd", "ista", "ista-reverse", "fista", "linear")

REGRESSORS = {
    "plain": {},
    "tied": {"fit_intercept": "tied", "task_prior": "mean"},
    "no intercept": {"fit_intercept": False, "task_prior": None},
    "signs": {"feature_prior": SIGNS},
    "similar": {"feature_prior": FeaturePrior.similar([(0, 1)]), "standardize": True},
    "ring": {"task_prior": RING},
    "signs on a ring": {"task_prior": RING, "feature_prior": SIGNS},
    "groups": {"task_prior": GROUPS},
    "nested": {"task_prior": NESTED, "feature_prior": SIGNS},
    "REML": {"ties": "adaptive", "task_prior": "mean", "fit_intercept": "tied"},
    "REML on a chain": {"ties": "adaptive", "lam": 0.0},
    "nested REML": {"ties": "adaptive", "task_prior": NESTED, "lam": 0.0},
    "nuclear": {"penalty": "nuclear"},
    "nuclear, ring": {"penalty": "nuclear", "task_prior": RING},
    "nuclear, similar": {
        "penalty": "nuclear",
        "feature_prior": FeaturePrior.similar([(0, 1)]),
    },
    "outliers": {"outlier_tasks": True, "task_prior": "mean"},
    **{f"solver {name}": {"solver": name, "max_iter": 20} for name in STEPS},
}
CLASSIFIERS = {
    "logistic": {},
    "logistic, signs": {"feature_prior": SIGNS, "fit_intercept": "tied"},
    "logistic, nuclear": {"penalty": "nuclear"},
    "logistic, ring": {"task_prior": RING},
    "logistic, REML": {"ties": "adaptive", "task_prior": "mean"},
}


def fits():
    for name, settings in REGRESSORS.items():
        model = MultiTaskRegressor(**{"lam": 2.0, "tol": 1e-9} | settings)
        yield name, model.fit(X, y, task=task).coef_
    for name, settings in CLASSIFIERS.items():
        model = MultiTaskClassifier(**{"lam": 0.5, "tol": 1e-9} | settings)
        yield name, model.fit(X, y > np.median(y), task=task).coef_
    shared = y.reshape(m, n).T
    for penalty in ("l21", "nuclear"):
        model = MultiTaskRegressor(2.0, penalty=penalty, tol=1e-9)
        yield f"one X, {penalty}", model.fit(X[:n], shared).coef_
        found = model.fit(wide, wide[:, 0], task=np.arange(len(wide)) % m)
        yield f"wide, {penalty}", found.coef_
        found = model.fit(csr_array(X), y, task=task)
        yield f"sparse, {penalty}", found.coef_
    for build in (DMTL, RMTL, MMTFL, MKMTL):
        yield build.__name__, build().fit(X, y, task=task).predict(X, task=task)
    table = pd.DataFrame(X, columns=list("abcde")).assign(t=task)
    for kind, target in (("regressor", y), ("classifier", y > np.median(y))):
        model = tabular_model(kind, task="t", trees="none", cv=2, smooth=["a"])
        model.fit(table, target)
        scores = model.predict if kind == "regressor" else model.predict_proba
        yield kind, scores(table)
    small = Booster(max_iter=5, max_leaf_nodes=4, learning_rate=0.5, max_bins=9)
    yield "trees", grow(small, X, y, None, Squared()).predict(X)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_loop_runs_without_numba(tmp_path):
    words = [sys.executable, __file__, str(tmp_path / "found")]
    done = subprocess.run(
        words,
        env=beside_tests() | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(Path(tmp_path / "found").read_text())
    expected = dict(fits())
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        error = np.abs(np.array(found[name]) - values).max()
        assert error <= 1e-6 * (1.0 + np.abs(values).max()), name


# What the process without compiled loops does.
if __name__ == "__main__":
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", "fit_intercept=.tied. couples")
    found = {name: np.asarray(values).tolist() for name, values in fits()}
    Path(sys.argv[1]).write_text(json.dumps(found))
