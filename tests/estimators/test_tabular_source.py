"""tabular_model on files: as on frames, or a sample chooses and all rows are fitted."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from priormtl import load, save, summarize, tabular_model
from priormtl.design import Encoded
from priormtl.engines import RawTable, Schema, open_source, raw_tables

pytestmark = pytest.mark.usefixtures("few_trees")


def shops(n=3000, m=60, seed=0):
    """Curves, categories, levels, gaps; one shop in four has a tenth of the rows."""
    rng = np.random.default_rng(seed)
    share = np.where(np.arange(m) % 4 == 0, 0.1, 1.0)
    shop = rng.choice(m, n, p=share / share.sum())
    brand = rng.integers(0, 30, n)
    table = pd.DataFrame(
        {
            "shop": [f"s{i:02d}" for i in shop],
            "age": rng.uniform(20.0, 70.0, n),
            "price": rng.normal(size=n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "brand": [f"b{i}" for i in brand],
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(shop % 5, unit="D"),
        }
    )
    slopes = 1.0 + 0.5 * rng.normal(size=m)
    y = np.sin(table["age"] / 8.0) - slopes[shop] * table["price"]
    y += (table["colour"] == "red") + rng.normal(size=m)[shop]
    y += 0.5 * rng.normal(size=30)[brand] + 0.3 * rng.normal(size=n)
    table.loc[rng.random(n) < 0.1, "age"] = np.nan
    return table.assign(sales=y)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("shops") / "shops.parquet"
    table = pa.Table.from_pandas(shops(), preserve_index=False)
    pq.write_table(table, path, row_group_size=500)
    return path


@pytest.fixture
def small_memory(monkeypatch):
    monkeypatch.setattr(raw_tables, "MOST_CELLS", 1000)
    monkeypatch.setattr(raw_tables, "SAMPLED_ROWS", 1000)
    monkeypatch.setattr(raw_tables, "SAMPLED_TASKS", 10)


def quick(**settings):
    return tabular_model("regressor", task="shop", **{"trees": "none", **settings})


def raw_table(source, **columns):
    schema = Schema(**{"task": "shop", "target": "sales", **columns})
    return RawTable.of(open_source(source), schema)


def test_a_file_that_memory_holds_gives_the_model_of_its_frame(file):
    frame = pd.read_parquet(file)
    X, y = frame.drop(columns="sales"), frame["sales"]
    expected = quick(crossed="none").fit(X, y)
    found = quick(crossed="none").fit_source(file, target="sales")
    assert found.fitted_.sample is None
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=1e-12)


def test_a_sample_chooses_and_all_rows_are_fitted(file, small_memory, tmp_path):
    frame = pd.read_parquet(file)
    X, y = frame.drop(columns="sales"), frame["sales"]
    model = quick(trees="auto").fit_source(file, target="sales")
    fitted, sample = model.fitted_, model.fitted_.sample
    assert sample.all_rows == 3000
    assert sample.rows <= 1000
    assert 10 <= sample.tasks < 60
    assert len(model[-1].held_out_) == sample.rows
    assert set(fitted.labels) == set(frame["shop"])
    assert fitted.task_weight.sum() == 3000.0
    assert fitted.certificate.relative < 1e-5
    shown = str(model.summary())
    assert f"{sample.rows:,} of 3,000 rows ({sample.tasks} tasks)" in shown
    # Nearly what all rows choose, and far better than what the sample knows of shops.
    full = quick(trees="auto").fit(X, y)
    assert model.score(X, y) > full.score(X, y) - 0.02
    alone = quick(trees="auto").fit(*few_rows(file, X))
    assert model.score(X, y) > alone.score(X, y) + 0.05
    interval = model.predict_interval(X)
    covered = np.mean((y >= interval[:, 0]) & (y <= interval[:, 1]))
    assert 0.85 < covered < 0.98
    save(model, tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.fitted_.sample == sample
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-9)


def test_trees_know_tasks_of_the_rest_by_their_scores(small_memory):
    rng = np.random.default_rng(0)
    shop, (a, b) = rng.integers(0, 60, 4000), rng.normal(size=(2, 4000))
    mean = 4.0 * rng.normal(size=60)[shop] + 2.0 * (a > 0) * (b > 0)
    sales = mean + 0.2 * rng.normal(size=4000)
    table = pa.table({"shop": shop, "a": a, "b": b, "sales": sales})
    misses = dict[str, float]()
    for trees in ("auto", "none"):
        model = quick(trees=trees, task_prior="mean").fit_source(table, target="sales")
        sampled = model.fitted_.labels[: model.fitted_.sample.tasks]
        rest = ~np.isin(shop, sampled)
        assert 2500 < rest.sum() < 4000
        misses[trees] = np.abs(model.predict(table) - mean)[rest].mean()
        assert trees == "none" or model[-1].trees_weight_ > 0.3
    assert misses["auto"] < misses["none"]


def few_rows(file, X):
    frame = raw_table(file).sample()
    return frame.X.to_pandas()[X.columns], frame.y


def test_coefficients_are_those_of_the_chosen_model_on_all_rows(file, small_memory):
    # The model that was chosen, posed on statistics of the whole table at once.
    frame = pd.read_parquet(file)
    X, y = frame.drop(columns="sales"), frame["sales"].to_numpy()
    model = quick(crossed="none").fit_source(file, target="sales")
    encoded = model[:-1].transform(X)
    assert isinstance(encoded, Encoded)
    fitted = model.fitted_
    whole = summarize(pd.DataFrame(encoded.X, columns=list(encoded.design)), y, X.shop)
    whole = whole.derive(features=encoded.design)
    posed, solution = fitted.model.pose(whole).fit(model[-1]._solver(), whole)
    place = [fitted.labels.index(task) for task in whole.tasks]
    coef = solution.coef.T / posed.scale
    size = np.abs(coef).max()
    assert np.abs(coef - fitted.coef[place]).max() < 1e-4 * size
    objective = solution.certificate.primal + posed.problem.fit.constant
    assert np.isclose(objective, fitted.certificate.objective, rtol=1e-5)


def test_samples_do_not_depend_on_the_order_of_rows(file, small_memory, tmp_path):
    frame = pd.read_parquet(file).sample(frac=1.0, random_state=0)
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "a", row_group_size=70)
    frames = [raw_table(one, drop=drop).sample() for one, drop in both(file, tmp_path)]
    tables = [
        one.X.to_pandas().assign(y=one.y).sort_values(["shop", "y"]) for one in frames
    ]
    pd.testing.assert_frame_equal(*(t.reset_index(drop=True) for t in tables))


def both(file, folder):
    return (file, ()), (folder / "a", ("__index_level_0__",))


@pytest.mark.parametrize(("rows", "tasks"), [(1000, 10), (300, 40), (10_000, 10)])
def test_samples_have_whole_tasks_or_a_share_of_enough(file, monkeypatch, rows, tasks):
    monkeypatch.setattr(raw_tables, "SAMPLED_ROWS", rows)
    monkeypatch.setattr(raw_tables, "SAMPLED_TASKS", tasks)
    counts = pd.read_parquet(file)["shop"].value_counts()
    frame = raw_table(file).sample()
    found = pd.Series(frame.X["shop"].to_pylist()).value_counts()
    assert frame.all_tasks == 60
    assert frame.rows == 3000
    assert frame.dropped == 0
    if rows == 300:  # half of the rows of 40 tasks, or so
        assert 30 <= len(found) <= 40
        assert 200 < found.sum() < 400
    else:
        assert (found == counts[found.index]).all()
        assert found.sum() <= rows
        assert len(found) == 60 or found.sum() > rows - counts.max()


def test_statistics_of_pieces_are_those_of_the_table(file, monkeypatch):
    frame = pd.read_parquet(file)
    X = frame.drop(columns="sales").assign(w=np.arange(3000) % 3)
    features = tabular_model("regressor", task="shop", crossed="none")[0]
    design = features.fit(X.drop(columns="w")).design_
    table = pa.Table.from_pandas(X.assign(sales=frame["sales"]))
    monkeypatch.setattr(raw_tables, "choose_rows", lambda *sizes: 97)
    raw = raw_table(table, weight="w")
    found = raw.summarize(design, np.zeros(0))
    part = X["w"] > 0
    expected = summarize(
        design.encode(X[part]), frame["sales"][part], X["shop"][part], X["w"][part]
    )
    assert found.tasks == expected.tasks
    for name in ("weight", "x_mean", "y_mean", "xx", "xy", "yy"):
        a, b = vars(found)[name], vars(expected)[name]
        assert np.abs(a - b).max() <= 1e-9 * np.abs(b).max()


def test_rows_without_targets_are_refused_or_dropped(file, small_memory):
    table = pq.read_table(file)
    gaps = np.arange(3000) % 100 == 7
    sales = pa.array(table["sales"].to_numpy(), mask=gaps)
    table = table.set_column(table.column_names.index("sales"), "sales", sales)
    with pytest.raises(
        ValueError, match="'sales' is missing in 5 of 500 rows, first in row 8"
    ):
        quick().fit_source(table, target="sales")
    model = quick().fit_source(table, target="sales", missing="drop")
    assert model.fitted_.sample.all_rows == 2970


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"loss": "poisson"}, "with loss='poisson'"),
        ({"time": "day"}, "with time"),
        ({"outlier_tasks": True}, "with outlier_tasks=True"),
        ({"ties": "uniform", "lams": (0.0,)}, "needs effects whose ties are estimated"),
    ],
)
def test_what_needs_all_rows_is_refused(file, small_memory, settings, reason):
    with pytest.raises(ValueError, match=reason):
        quick(**settings).fit_source(file, target="sales")


def test_classes_of_a_large_file_are_refused(file, small_memory):
    model = tabular_model("classifier", task="shop")
    with pytest.raises(ValueError, match=r"too large for memory.* with classes"):
        model.fit_source(file, target="colour")


def test_curves_of_too_many_tasks_are_straight(file, small_memory, monkeypatch):
    monkeypatch.setattr("priormtl.estimators.tabular.MOST_NUMBERS", 60 * 12**2)
    with pytest.warns(UserWarning, match="effects of numbers are straight lines"):
        model = quick().fit_source(file, target="sales", features=["age", "price"])
    assert not any("~" in name for name in model[-1].feature_names_in_)
    assert model[0].smooth == "auto"
    monkeypatch.setattr("priormtl.estimators.tabular.MOST_NUMBERS", 60)
    with (
        pytest.warns(UserWarning, match="straight lines"),
        pytest.raises(ValueError, match=r"statistics of 60 tasks and \d features"),
    ):
        quick().fit_source(file, target="sales", features=["age", "price"])


def test_chains_of_sampled_tasks_are_those_of_all(small_memory):
    rng = np.random.default_rng(0)
    year = rng.integers(1960, 2020, 3000)
    x = rng.normal(size=3000)
    level = np.cumsum(rng.normal(size=60))
    table = pd.DataFrame({"year": year, "x": x})
    table["y"] = x + level[year - 1960] + rng.normal(size=3000)
    model = tabular_model("regressor", task="year", trees="none", task_prior="chain")
    model = model.fit_source(pa.Table.from_pandas(table), target="y")
    assert 0 < model.fitted_.added < 60
    assert model.fitted_.labels != sorted(model.fitted_.labels)
    found = dict(zip(model.fitted_.labels, model.fitted_.intercept, strict=True))
    full = tabular_model("regressor", task="year", trees="none", task_prior="chain")
    full = full.fit(table[["year", "x"]], table["y"])
    expected = dict(zip(full.fitted_.labels, full.fitted_.intercept, strict=True))
    apart = [found[t] - expected[t] for t in expected]
    assert np.std(apart) < 0.05
