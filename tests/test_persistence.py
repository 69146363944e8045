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
import skops.io

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
)
from priormtl.baselines import RMTL

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
    "search on pandas": (
        MultiTaskRegressorCV(
            task="t",
            cv=2,
            lams=[0.1, 1.0],
            thetas=(1,),
            epsilons=(0.1, 1),
            feature_prior=PRIOR,
            task_prior="chain",
            standardize=True,
        ),
        ORDERED,
        TARGET,
    ),
    "search of classes on pandas": (
        MultiTaskClassifierCV(task="t", cv=2, lams=2, thetas=(1,), epsilons=(1,)),
        pd.DataFrame(COLUMNS),
        np.where(TARGET > 0, "high", "low"),
    ),
    "ties and outlier tasks": (
        MultiTaskRegressor(task="t", ties="adaptive", outlier_tasks=True),
        pd.DataFrame(COLUMNS),
        TARGET,
    ),
    "compared method": (RMTL(task="t"), pd.DataFrame(COLUMNS), TARGET),
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
    content = skops.io.dumps(model)
    # Whoever loads a model has to trust our types, and sparse matrices of priors.
    untrusted = skops.io.get_untrusted_types(data=content)
    assert {name.split(".")[0] for name in untrusted} <= {"priormtl", "scipy"}
    return skops.io.loads(content, trusted=untrusted)


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES)
def case(request):
    model, X, y = request.param
    return model.fit(X, y), X, y


@pytest.mark.parametrize(
    "through", [through_pickle, through_joblib, through_cloudpickle, through_skops]
)
def test_a_fitted_model_comes_back(case, through):
    model, X, _ = case
    twin = through(model)
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))
    if hasattr(model, "coef_frame"):  # compared methods have none
        assert type(twin.coef_frame()) is type(X)
        assert twin.coef_frame().equals(model.coef_frame())
    assert twin.tasks_.tolist() == model.tasks_.tolist()


def test_a_fitted_model_holds_nothing_of_other_libraries(case):
    # Types that skops and others must be told about, and that later versions may lack.
    content = pickle.dumps(case[0], protocol=2)  # names modules in the open
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
