"""save and load: nothing lost, nothing foreign, nothing changed accepted."""

import json
import struct
from datetime import date
from hashlib import blake2b

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import make_scorer, r2_score
from sklearn.model_selection import KFold

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    TaskPrior,
    load,
    one_vs_one,
    save,
    tabular_model,
)
from priormtl.archive import read_archive, write_archive
from priormtl.datasets import make_related_tasks
from priormtl.exceptions import ModelFileError

pytestmark = pytest.mark.usefixtures("few_trees")

DATA = make_related_tasks(3, 4, 12, random_state=0)
PRIOR = (
    FeaturePrior.similar([("a", "b")], weight=0.1)
    + FeaturePrior.from_correlation(2)
    + FeaturePrior.grid(2, 2)
    + FeaturePrior.from_matrix(np.array([[1.0, 0.0, 0.3, 0.0]]))
)
TIES = TaskPrior.chain([2, 0, 1]) + TaskPrior.groups({"g": [0, 1]}) + TaskPrior.mean()


def fit_regressor(**settings):
    X = pd.DataFrame(DATA.X, columns=list("abcd"))
    return MultiTaskRegressor(**settings).fit(X, DATA.y, task=DATA.task)


def fit_classifier():
    X, y, task = one_vs_one(DATA.X, np.array(["u", "v", "w"])[DATA.task])
    return MultiTaskClassifier().fit(X, y, task=task)


MODELS = {
    "plain": lambda: MultiTaskRegressor().fit(DATA.X, DATA.y),
    "all priors": lambda: fit_regressor(
        feature_prior=PRIOR,
        task_prior=TIES,
        feature_weights=[1.0, 2.0, 3.0, 4.0],
        ties=np.ones(4),
        fit_intercept="tied",
        standardize=True,
    ),
    "adaptive ties": lambda: fit_regressor(
        ties="adaptive", fit_intercept="tied", task_prior="mean"
    ),
    "columns": lambda: MultiTaskRegressor().fit(DATA.X[:12], DATA.y.reshape(12, 3)),
    "graph of tasks": lambda: fit_regressor(task_prior=TaskPrior.from_graph([(0, 2)])),
    "dates as tasks": lambda: MultiTaskRegressor().fit(
        DATA.X, DATA.y, task=[date(2026, 1 + i, 1) for i in DATA.task]
    ),
    "search": lambda: MultiTaskRegressorCV(np.array([1.0, 5.0]), cv=3).fit(
        DATA.X, DATA.y, task=DATA.task
    ),
    "search of classes": lambda: MultiTaskClassifierCV(
        3, epsilons=(1.0,), cv=2, scoring="accuracy", selection="1se"
    ).fit(DATA.X, DATA.y > 0, task=DATA.task),
    "classes": fit_classifier,
    "squared classes": lambda: MultiTaskClassifier(loss="squared").fit(
        DATA.X, DATA.y > 0
    ),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param]()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.model"


def rows_for(model):
    X = DATA.X[:6]
    if hasattr(model, "feature_names_in_"):
        X = pd.DataFrame(X, columns=model.feature_names_in_)
    alone = len(model.tasks_) == 1 or model._targets_are_columns
    tasks = None if alone else np.resize(model.tasks_, 6)
    return X, tasks


def test_loaded_predicts_the_same_bits(model, path):
    save(model, path)
    loaded = load(path)
    X, task = rows_for(model)
    a, b = model.predict(X, task=task), loaded.predict(X, task=task)
    assert a.dtype == b.dtype
    assert np.array_equal(a, b)
    for name in ("objective_", "dual_gap_", "n_iter_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(model, name)
    assert np.array_equal(loaded.tie_weights_, model.tie_weights_)
    strengths = (getattr(m, "intercept_strength_", None) for m in (loaded, model))
    assert len(set(strengths)) == 1
    assert loaded.tasks_.tolist() == model.tasks_.tolist()


def test_loaded_can_be_fitted_again(model, path):
    save(model, path)
    again = clone(load(path))
    plain, other = again.get_params(), model.get_params()
    assert plain.keys() == other.keys()
    save(load(path), path.with_suffix(".again"))
    assert path.read_bytes() == path.with_suffix(".again").read_bytes()


def test_an_unfitted_model_is_not_saved(path):
    with pytest.raises(NotFittedError):
        save(MultiTaskRegressor(), path)
    assert not path.exists()


def test_only_our_models_are_saved(path):
    message = r"^model must be one of MultiTaskRegressor, .*got Ridge; .*joblib\.dump"
    with pytest.raises(TypeError, match=message):
        save(Ridge().fit(DATA.X, DATA.y), path)
    impostor = type("MultiTaskRegressor", (Ridge,), {})
    with pytest.raises(TypeError, match="got MultiTaskRegressor; keep others by"):
        save(impostor().fit(DATA.X, DATA.y), path)
    assert not path.exists()


def test_labels_that_json_does_not_know_are_refused(path):
    labels = np.empty(36, dtype=object)
    labels[:] = [(0, int(i)) for i in DATA.task]
    model = MultiTaskRegressor().fit(DATA.X, DATA.y, task=labels)
    with pytest.raises(ValueError, match="text, numbers or dates"):
        save(model, path)
    assert not path.exists()


def test_any_truncation_is_refused(path):
    save(MODELS["plain"](), path)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            load(path)


def mutants(content, count):
    """Flipped, lost, added, swapped and zeroed bytes."""
    rng = np.random.default_rng(0)
    size = len(content)
    for k in range(count):
        at, other = (int(v) for v in rng.integers(0, size, 2))
        changed = bytearray(content)
        if k % 5 == 0:
            changed[at] ^= 1 << int(rng.integers(8))
        elif k % 5 == 1:
            del changed[at : at + 1 + k % 7]
        elif k % 5 == 2:
            changed[at:at] = rng.bytes(1 + k % 7)
        elif k % 5 == 3:
            changed[at], changed[other] = changed[other], changed[at]
        else:
            changed[at : at + 16] = bytes(len(changed[at : at + 16]))
        if changed != content:
            yield bytes(changed)


@pytest.mark.parametrize("count", [2_000, pytest.param(20_500, marks=pytest.mark.slow)])
def test_mutants_are_refused(path, count):
    save(fit_classifier(), path)
    content = path.read_bytes()
    survivors = 0
    for changed in mutants(content, count):
        path.write_bytes(changed)
        with pytest.raises(ModelFileError):
            load(path)
        survivors += 1
    assert survivors > 0.85 * count


def forge(path, change):
    """Rewrite the settings of a file, with a digest that fits."""
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    meta = json.loads(header["__metadata__"]["priormtl"])
    change(meta["settings"])
    header["__metadata__"]["priormtl"] = json.dumps(meta)
    text = json.dumps(header).encode()
    body = struct.pack("<Q", len(text)) + text + content[8 + length : -32]
    path.write_bytes(body + blake2b(body, digest_size=32, person=b"priormtl").digest())


FORGERIES = {
    "class": lambda s: s.update({"class": "os.system"}),
    "extra setting": lambda s: s["params"].update({"evil": 1}),
    "missing setting": lambda s: s["params"].pop("lam"),
    "too few tasks": lambda s: s["fitted"]["tasks"].pop(),
    "task of a strange type": lambda s: s["fitted"].update({"tasks": [{"x": 1}] * 3}),
    "features": lambda s: s["fitted"].update({"design": ["a"]}),
    "class type": lambda s: s["fitted"]["classes"].__setitem__(1, "O,O"),
    "classes": lambda s: s["fitted"]["classes"][0].pop(),
    "prior": lambda s: s["params"].update({"feature_prior": [{"part": "code"}]}),
    "prior of no shape": lambda s: s["params"].update({"feature_prior": 7}),
    "ties": lambda s: s["params"].update({"task_prior": [{"tie": "code"}]}),
    "nothing": lambda s: s.clear(),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_settings_are_refused(path, name):
    save(fit_classifier(), path)
    forge(path, FORGERIES[name])
    with pytest.raises(ModelFileError, match="does not hold a model"):
        load(path)


def test_classes_of_a_frame_come_back(path):
    words = pd.Series(np.where(DATA.y > 0, "yes", "no"), dtype=object)
    model = MultiTaskClassifier().fit(DATA.X, words, task=DATA.task)
    save(model, path)
    assert load(path).predict(DATA.X, task=DATA.task).tolist() == (
        model.predict(DATA.X, task=DATA.task).tolist()
    )


def test_a_loaded_search_knows_all_its_scores(path):
    model = MODELS["search"]()
    save(model, path)
    loaded = load(path)
    for name in ("lam_", "theta_", "epsilon_", "best_score_", "best_index_"):
        assert getattr(loaded, name) == getattr(model, name)
    assert loaded.n_splits_ == 3
    assert loaded.cv_results_.keys() == model.cv_results_.keys()
    for name, values in model.cv_results_.items():
        np.testing.assert_array_equal(loaded.cv_results_[name], values)


@pytest.mark.parametrize(
    "settings",
    [
        {"cv": KFold(3, shuffle=True, random_state=0)},
        {"scoring": make_scorer(r2_score)},
    ],
)
def test_settings_that_need_a_pickle_are_refused(path, settings):
    model = MultiTaskRegressorCV(2, **settings).fit(DATA.X, DATA.y, task=DATA.task)
    with pytest.raises(TypeError, match="without a pickle"):
        save(model, path)
    assert not path.exists()
    save(model.set_params(cv=None, scoring=None), path)
    np.testing.assert_array_equal(load(path).coef_, model.coef_)


SEARCH_FORGERIES = {
    "no best": lambda s: s["fitted"]["search"].pop("best"),
    "best before all": lambda s: s["fitted"]["search"].update({"best": -1}),
    "best after all": lambda s: s["fitted"]["search"].update({"best": 10**6}),
    "no lams": lambda s: s["params"].pop("lams"),
}


@pytest.mark.parametrize("name", SEARCH_FORGERIES)
def test_forged_searches_are_refused(path, name):
    save(MODELS["search"](), path)
    forge(path, SEARCH_FORGERIES[name])
    with pytest.raises(ModelFileError, match="does not hold a model"):
        load(path)


@pytest.mark.parametrize("classify", [False, True])
def test_files_keep_how_held_out_predictions_agree_with_targets(tmp_path, classify):
    table = pd.DataFrame(DATA.X, columns=list("abcd")).assign(t=DATA.task)
    y = DATA.y > np.median(DATA.y) if classify else DATA.y
    kind = "classifier" if classify else "regressor"
    model = tabular_model(kind, task="t", smooth="none", trees="none", cv=3)
    model.fit(table, y)
    save(model, tmp_path / "model")
    ours, theirs = model[-1].reliability_, load(tmp_path / "model")[-1].reliability_
    assert ours.rows.sum() == len(y)
    assert np.average(ours.actual, weights=ours.rows) == pytest.approx(np.mean(y))
    assert np.isnan(ours.log_loss[0]) != classify
    for one, other in zip(ours, theirs, strict=True):
        assert np.array_equal(one, other, equal_nan=True)


@pytest.fixture(scope="module")
def with_trees():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(90, 2)), columns=["a", "b"])
    y = np.sign(table["a"] * table["b"])
    model = tabular_model("regressor", task="t", smooth="none", cv=2)
    return model.fit(table.assign(t=np.arange(90) % 3), y)


TREE_FORGERIES = {
    "a root outside": {"roots": [9**9]},
    "a feature outside": {"feature": [4]},
    "a child that is its parent": {"right": [0]},
    "a child outside": {"right": [9**9]},
    "a leaf that is lost": {"feature": [0]},
    "an unknown leaf": {"number": [np.nan]},
}


@pytest.mark.parametrize("name", TREE_FORGERIES)
def test_forged_trees_are_refused(with_trees, path, name):
    save(with_trees, path)
    settings, arrays = read_archive(path, "model")
    place = -1 if name == "a leaf that is lost" else 0
    for part, value in TREE_FORGERIES[name].items():
        arrays[f"trees.{part}.0"][place] = value[0]
    write_archive(path, "model", settings, arrays)
    with pytest.raises(ModelFileError, match="does not hold a model"):
        load(path)


@pytest.mark.parametrize("change", [{"bases": [np.nan] * 2}, {"share": 1.5}])
def test_forged_shares_of_trees_are_refused(with_trees, path, change):
    save(with_trees, path)
    forge(path, lambda settings: settings["fitted"]["trees"].update(change))
    with pytest.raises(ModelFileError, match="does not hold a model"):
        load(path)
