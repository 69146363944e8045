"""Tables of more than two classes, from raw columns to files and reports."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

from priormtl import load, report, save, tabular_model
from priormtl.export import to_onnx


def draw_table(n=240, seed=0):
    """A curve, an interaction, text, gaps and a task of one class."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, n))
    colour = rng.choice(["red", "green", "blue"], n)
    shop = rng.choice(list("abcdef"), n)
    scores = 3.0 * np.column_stack(
        [np.sin(2 * x) * (1 + (colour == "red")), x * z, 0 * x]
    )
    chosen = np.argmax(scores + rng.gumbel(size=(n, 3)), axis=1)
    y = np.array(["low", "mid", "high"])[chosen].astype(object)
    y[shop == "a"] = "low"
    z[::17] = np.nan
    table = pd.DataFrame({"shop": shop, "x": x, "z": z, "colour": colour})
    return table, y


@pytest.fixture(scope="module")
def fitted():
    table, y = draw_table()
    return tabular_model("classifier", task="shop", cv=3).fit(table, y)


@pytest.mark.slow
def test_trees_are_mixed_in_and_predict_better_than_shares_of_classes(fitted):
    table, y = draw_table(seed=1)
    chances = fitted.predict_proba(table)
    assert fitted.classes_.tolist() == ["high", "low", "mid"]
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert 0.0 < fitted[-1].trees_weight_ < 1.0
    shares = np.tile([np.mean(y == one) for one in fitted.classes_], (len(y), 1))
    assert log_loss(y, chances) < 0.9 * log_loss(y, shares)
    best = fitted.classes_[np.argmax(chances, axis=1)]
    np.testing.assert_array_equal(fitted.predict(table), best)


@pytest.mark.slow
def test_files_keep_classes_and_trees(fitted, tmp_path):
    table, _ = draw_table(seed=1)
    save(fitted, tmp_path / "model.zip")
    again = load(tmp_path / "model.zip")
    np.testing.assert_array_equal(
        again.predict_proba(table), fitted.predict_proba(table)
    )


@pytest.mark.slow
def test_reports_name_classes_and_exports_say_what_is_not_offered(fitted):
    table, y = draw_table(seed=1)
    text = report(fitted, table, y).to_markdown()
    assert "a: low" in text
    assert "each class, by its number" in text
    with pytest.raises(ValueError, match=r"other features of 'x', such as a curve"):
        to_onnx(fitted[-1].model_)
    with pytest.raises(ValueError, match=r"crossed must be None with 3 classes"):
        tabular_model("classifier", task="shop", crossed=["colour"]).fit(table, y)


@pytest.mark.parametrize("kind", ["int", "category"])
def test_labels_of_any_kind_are_kept(kind):
    table, y = draw_table(n=120)
    codes = pd.Series(y).map({"low": 0, "mid": 1, "high": 2})
    labels = codes + 3 if kind == "int" else pd.Series(y, dtype="category")
    settings = {"smooth": "none", "trees": "none", "cv": 2}
    model = tabular_model("classifier", task="shop", **settings).fit(table, labels)
    weighted = tabular_model("classifier", task="shop", **settings)
    weighted.fit(table, labels, model__sample_weight=np.ones(len(labels)))
    assert set(model.predict(table)) <= set(labels)
    np.testing.assert_allclose(
        weighted.predict_proba(table), model.predict_proba(table), atol=1e-6
    )


def test_tasks_of_one_or_two_of_three_classes_share_all():
    table, y = draw_table(n=120)
    keep = np.ones(len(y), dtype=bool)
    for shop, absent in zip("bcdef", ["low", "mid", "high", "low", "mid"], strict=True):
        keep &= (table["shop"] != shop) | (y != absent)
    settings = {"smooth": "none", "trees": "none", "cv": 3}
    model = tabular_model("classifier", task="shop", **settings)
    model.fit(table[keep], y[keep])
    assert model.predict_proba(table).shape == (len(table), 3)
