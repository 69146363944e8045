"""Models as ONNX: a runtime that knows nothing of us predicts the same."""

from datetime import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from priormtl import (
    MultiTaskClassifier,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    TaskPrior,
)

pytest.importorskip("onnx", reason="onnx is not installed: pip install priormtl[onnx]")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
export = pytest.importorskip("priormtl.export")

N, D = 60, 4
ROUNDING = {"float64": 1e-12, "float32": 1e-6}
SCHOOLS = ["north / 1", "north / 2", "south / 1", "south / 3"]
DEEP = ["a / x / 1", "a / y / 2", "b / x / 3", "b / x / 4"]
LABELS = {
    "text": ["b", "a", "d", "c"],
    "numbers": [3, -1, 7, 20],
    "whole floats": [1.0, 2.0, 4.0, 5.0],
    "floats": [0.5, 1.0, 2.5, 3.0],
    "dates": [datetime(2024, 1, day) for day in range(1, 5)],
    "truth": [True, False, True, False],
    "nested": SCHOOLS,
    "deep": DEEP,
    "one": ["a"] * 4,
}


def draw_rows(labels, seed=0):
    rng = np.random.default_rng(seed)
    X = 3.0 + rng.normal(size=(N, D))
    task = np.array(labels)[np.arange(N) % len(labels)]
    y = X @ rng.normal(size=D) + np.arange(N) % len(labels) + rng.normal(size=N)
    return X, y, task


def as_input(labels, wanted):
    """Labels as the runtime takes them."""
    if wanted == "tensor(int64)":
        return np.array([int(label) for label in labels])
    return np.array([str(label) for label in np.asarray(labels).tolist()], dtype=object)


def run_onnx(model, X, task=None, dtype="float64"):
    session = ort.InferenceSession(
        export.to_onnx(model, dtype=dtype).SerializeToString(),
        providers=["CPUExecutionProvider"],
    )
    fed = {}
    for one in session.get_inputs():
        if one.name == "X":
            named = isinstance(X, pd.DataFrame)
            rows = X[model.feature_names_in_] if named else X
            fed[one.name] = np.asarray(rows, dtype=dtype)
        elif task is not None and one.name not in getattr(X, "columns", ()):
            fed[one.name] = as_input(task, one.type)
        else:
            column = X[one.name]
            is_text = one.type == "tensor(string)"
            fed[one.name] = (
                column.fillna("").to_numpy(dtype=object)
                if is_text
                else column.to_numpy("int64" if "int64" in one.type else dtype)
            )
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, fed), strict=True))


def assert_same(found, expected, dtype="float64"):
    assert found.dtype == dtype
    unit = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING[dtype] * unit)


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("kind", LABELS)
def test_regressors_predict_the_same_for_labels_of_all_kinds(kind, dtype):
    X, y, task = draw_rows(LABELS[kind])
    model = MultiTaskRegressor(0.5).fit(X, y, task=task)
    found = run_onnx(model, X, task, dtype)
    assert list(found) == ["prediction"]
    assert_same(found["prediction"], model.predict(X, task=task), dtype)


@pytest.mark.parametrize("kind", ["text", "whole", "fractions"])
@pytest.mark.parametrize("build", [MultiTaskRegressor, MultiTaskClassifier])
def test_crossed_factors_have_inputs_of_their_own(kind, build):
    X, y, task = draw_rows(LABELS["text"])
    rng = np.random.default_rng(1)
    teacher, room = rng.integers(0, 5, N), rng.integers(0, 4, N)
    y = y + 2.0 * rng.normal(size=5)[teacher] + rng.normal(size=4)[room]
    table = pd.DataFrame(X, columns=list("abcd")).assign(task=task)
    table["teacher"] = [f"t{k}" for k in teacher]
    table["room"] = {
        "text": np.array(["w", "x", "y", "z"])[room],
        "whole": room + 10,
        "fractions": 0.1 * room,
    }[kind]
    if build is MultiTaskClassifier:
        y = np.where(y > np.median(y), "yes", "no")
    model = build(0.5, task="task", crossed=["teacher", "room"]).fit(table, y)
    new = table.assign(teacher=["t9", *table["teacher"][1:]])  # a teacher not seen
    found = run_onnx(model, new)
    if build is MultiTaskRegressor:
        assert_same(found["prediction"], model.predict(new))
    else:
        assert_same(found["score"], model.decision_function(new))


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("classes", [(0, 1), ("no", "yes"), (False, True), (1.0, 2.0)])
def test_classifiers_give_labels_scores_and_probabilities(classes, loss, dtype):
    X, y, task = draw_rows(LABELS["text"])
    labels = np.array(classes)[(y > np.median(y)).astype(int)]
    model = MultiTaskClassifier(0.5, loss=loss).fit(X, labels, task=task)
    found = run_onnx(model, X, task, dtype)
    np.testing.assert_array_equal(found["label"], model.predict(X, task=task))
    assert_same(found["score"], model.decision_function(X, task=task), dtype)
    assert ("probability" in found) == (loss == "logistic")
    if loss == "logistic":
        assert_same(found["probability"], model.predict_proba(X, task=task), dtype)


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("labels", [(0, 1, 2), ("bus", "car", "walk")])
def test_several_classes_have_probabilities(labels, dtype):
    X, y, task = draw_rows(LABELS["text"])
    y = np.array(labels)[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    model = MultiTaskClassifier(0.5, unseen_tasks="shared").fit(X, y, task=task)
    task = np.where(np.arange(N) % 7 == 0, "new", task)
    found = run_onnx(model, X, task, dtype)
    np.testing.assert_array_equal(found["label"], model.predict(X, task=task))
    assert_same(found["score"], model.decision_function(X, task=task), dtype)
    assert_same(found["probability"], model.predict_proba(X, task=task), dtype)


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize(
    ("loss", "known"),
    [
        ("squared", {"offset": "size"}),
        ("poisson", {}),
        ("poisson", {"exposure": "size"}),
        ("gamma", {"offset": "size"}),
        ("negative_binomial", {"exposure": "size"}),
    ],
)
def test_counts_and_amounts_are_means(loss, known, dtype):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(N, 2)), columns=["a", "b"])
    table["size"], table["t"] = rng.uniform(1.0, 3.0, N), rng.permutation(N) % 3
    if not known:
        table = table.drop(columns="size")
    y = rng.poisson(np.exp(table["a"])) + float(loss == "gamma")
    model = MultiTaskRegressor(0.5, loss=loss, task="t", **known).fit(table, y)
    found = run_onnx(model, table, dtype=dtype)["prediction"]
    assert_same(found, model.predict(table), dtype)


def test_tasks_may_have_classes_of_their_own():
    X, y, task = draw_rows(["a", "b"])
    labels = np.where(task == "a", "p", "q").astype(object) + np.where(y > 0, "1", "0")
    settings = {"unseen_tasks": "shared", "task_prior": None}
    model = MultiTaskClassifier(0.1, **settings).fit(X, labels, task=task)
    found = run_onnx(model, X, task)["label"]
    np.testing.assert_array_equal(found, model.predict(X, task=task))
    with pytest.raises(ValueError, match="cannot be predicted by a mean"):
        model.predict(X[:1], task=["new"])
    with pytest.raises(Exception, match="out of data bounds"):
        run_onnx(model, X[:1], ["new"])


def test_searched_models_are_models():
    X, y, task = draw_rows(LABELS["text"])
    settings = {"lams": 3, "thetas": [0.0], "epsilons": [1.0], "cv": 3}
    model = MultiTaskRegressorCV(**settings).fit(X, y, task=task)
    assert_same(run_onnx(model, X, task)["prediction"], model.predict(X, task=task))


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_models_of_columns_answer_for_all_of_them(kind):
    X, y, _ = draw_rows(["a"])
    Y = np.column_stack([y, -y, y**2])
    if kind == "numbers":
        model = MultiTaskRegressor().fit(X, Y)
        assert_same(run_onnx(model, X)["prediction"], model.predict(X))
        return
    model = MultiTaskClassifier().fit(X, np.median(Y, axis=0) < Y)
    found = run_onnx(model, X)
    np.testing.assert_array_equal(found["label"], model.predict(X))
    assert_same(found["probability"], model.predict_proba(X))


UNSEEN = {
    "text": (LABELS["text"], ["new", "a", ""], {}),
    "numbers": (LABELS["numbers"], [0, 7, 99], {}),
    "districts": (
        SCHOOLS,
        ["north / 9", "east / 1", "north", "south / 1 / 2", "south / 3", "/", " / "],
        {"task_prior": "nested"},
    ),
    "three levels": (
        DEEP,
        ["a / x / 9", "a / z / 9", "b / x / 1", "c / x / 1", "a / y / 2", "b / x"],
        {"task_prior": TaskPrior.nested(between=0.3)},
    ),
    "named districts": (
        LABELS["text"],
        ["new", "a"],
        {"task_prior": TaskPrior.nested(dict(zip("abcd", "xxyy", strict=True)))},
    ),
    "outliers": (
        LABELS["text"],
        ["new", "a"],
        {"outlier_tasks": True, "outlier_strength": 2.0, "task_prior": "mean"},
    ),
}


@pytest.mark.parametrize("build", [MultiTaskRegressor, MultiTaskClassifier])
@pytest.mark.parametrize("kind", UNSEEN)
def test_unseen_tasks_get_what_predict_gives_them(kind, build):
    labels, asked, settings = UNSEEN[kind]
    X, y, task = draw_rows(labels)
    y = y if build is MultiTaskRegressor else np.where(y > np.median(y), "yes", "no")
    model = build(0.5, unseen_tasks="shared", **settings).fit(X, y, task=task)
    rows = X[: len(asked)]
    found = run_onnx(model, rows, asked)
    if build is MultiTaskRegressor:
        assert_same(found["prediction"], model.predict(rows, task=asked))
    else:
        np.testing.assert_array_equal(found["label"], model.predict(rows, task=asked))
        assert_same(found["probability"], model.predict_proba(rows, task=asked))


def test_an_empty_text_is_a_missing_label():
    X, y, task = draw_rows(LABELS["text"])
    model = MultiTaskRegressor(0.5, unseen_tasks="shared").fit(X, y, task=task)
    found = run_onnx(model, X[:2], ["", task[0]])
    assert_same(found["prediction"], model.predict(X[:2], task=[None, task[0]]))


@pytest.mark.parametrize("prior", ["chain", "nested"])
def test_unseen_tasks_stop_the_runtime_where_they_stop_us(prior):
    X, y, task = draw_rows(SCHOOLS)
    model = MultiTaskRegressor(task_prior=prior).fit(X, y, task=task)
    with pytest.raises(Exception, match="out of data bounds"):
        run_onnx(model, X[:1], ["new / 1"])


def draw_table():
    X, y, task = draw_rows(["north", "south"])
    table = pd.DataFrame({"school": task, "size": X[:, 0], "prediction": X[:, 1]})
    colours = np.array(["red", "green", "blue"])
    table["colour"] = colours[(X[:, 2] > 3).astype(int) + (X[:, 3] > 3)]
    return table, y


def test_text_columns_are_inputs_of_their_own():
    table, y = draw_table()
    model = MultiTaskRegressor(0.5, task="school").fit(table, y)
    other = table.assign(colour=table["colour"].replace("red", "mauve"))
    for rows in (table, other):
        found = run_onnx(model, rows)["prediction_"]  # a column has its name
        if rows is other:
            with pytest.warns(UserWarning, match="mauve"):
                expected = model.predict(rows)
        else:
            expected = model.predict(rows)
        assert_same(found, expected)


@pytest.mark.parametrize("text", [True, False])
def test_missing_values_are_filled_as_in_training(text):
    table, y = draw_table()
    table = table if text else table.drop(columns="colour")
    model = MultiTaskRegressor(0.5)
    whole = pa.Table.from_pandas(table.assign(y=y))
    model.fit_source(whole, task="school", target="y", missing="mean")
    gaps = table.copy()
    gaps.loc[::3, "size"] = np.nan
    if text:
        gaps.loc[::2, "colour"] = None
    expected = model.predict(gaps)
    if text:
        found = run_onnx(model, gaps, gaps["school"])["prediction_"]
    else:
        X = gaps[["size", "prediction"]].to_numpy()
        found = run_onnx(model, X, gaps["school"])["prediction"]
    assert_same(found, expected)


def test_files_say_what_they_hold():
    table, y = draw_table()
    table = table.drop(columns="colour")
    model = MultiTaskRegressor(task="school").fit(table, y)
    proto = export.to_onnx(model)
    assert proto.producer_name == "priormtl"
    props = {one.key: one.value for one in proto.metadata_props}
    assert props["features"] == '["size", "prediction"]'
    assert props["tasks"] == '["north", "south"]'
    assert [one.name for one in proto.graph.input] == ["X", "school"]
    assert proto.SerializeToString() == export.to_onnx(model).SerializeToString()


def test_what_cannot_be_exported_is_refused():
    X, y, task = draw_rows(LABELS["numbers"])
    model = MultiTaskRegressor().fit(X, y, task=task)
    with pytest.raises(ValueError, match="dtype must be"):
        export.to_onnx(model.set_params(unseen_tasks="error"), dtype="float16")
    with pytest.raises(TypeError, match="got a pipeline"):
        export.to_onnx(make_pipeline(StandardScaler(), model))
    with pytest.raises(TypeError, match="got StandardScaler"):
        export.to_onnx(StandardScaler())
    same = pd.Categorical([1, "1"] * (N // 2))
    mixed = MultiTaskRegressor(task_prior=None).fit(X, y, task=same)
    with pytest.raises(ValueError, match="tasks must differ as text"):
        export.to_onnx(mixed)
