"""Fitted models survive pickle, joblib, cloudpickle and skops."""

import io
import pickle
import pickletools

import cloudpickle
import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
)

rng = np.random.default_rng(0)
COLUMNS = {name: rng.normal(size=60) for name in "abc"} | {"t": list("uvw") * 20}
TARGET = COLUMNS["a"] - COLUMNS["b"] + 0.1 * rng.normal(size=60)
ORDERED = pd.DataFrame(COLUMNS).assign(t=pd.Categorical(COLUMNS["t"], list("wvu")))
PRIOR = FeaturePrior.similar([("a", "b")]) + FeaturePrior.from_matrix(np.eye(3))
CASES = {
    "pandas": (MultiTaskRegressor(task="t", feature_prior=PRIOR), ORDERED, TARGET),
    "polars": (MultiTaskClassifier(task="t"), pl.DataFrame(COLUMNS), TARGET > 0),
    "pyarrow": (
        MultiTaskRegressorCV(
            task="t", cv=2, lams=[0.1, 1.0], thetas=(1,), epsilons=(1,)
        ),
        pa.table(COLUMNS),
        TARGET,
    ),
}


def through_pickle(model):
    return pickle.loads(pickle.dumps(model))


def through_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


def through_cloudpickle(model):
    return pickle.loads(cloudpickle.dumps(model))


def through_skops(model):
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    content = skops.dumps(model)
    trusted = skops.get_untrusted_types(data=content)
    return skops.loads(content, trusted=trusted)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize(
    "through", [through_pickle, through_joblib, through_cloudpickle, through_skops]
)
def test_a_fitted_model_comes_back(case, through):
    model, X, y = case
    model.fit(X, y)
    twin = through(model)
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))
    assert type(twin.coef_frame()) is type(X)
    assert twin.coef_frame().equals(model.coef_frame())
    assert twin.tasks_.tolist() == model.tasks_.tolist()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_fitted_model_holds_nothing_of_other_libraries(case):
    # Types that skops and others must be told about, and that later versions may lack.
    model, X, y = case
    content = pickle.dumps(model.fit(X, y), protocol=2)  # names modules in the open
    found = {
        argument.split(".")[0].split(" ")[0]
        for code, argument, _ in pickletools.genops(content)
        if code.name == "GLOBAL"
    }
    assert found <= {"builtins", "__builtin__", "copyreg", "copy_reg", "_codecs"} | {
        "numpy",
        "scipy",
        "priormtl",
    }
