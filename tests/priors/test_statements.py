"""Known values, signs and common effects: rows, targets, constraints, and words."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from priormtl import FeaturePrior, MultiTaskRegressor, audit_prior, load, save
from priormtl.data import from_labels, summarize_tasks
from priormtl.design import Categories, Design, Line
from priormtl.priors import Targets, measure_violations
from priormtl.reports import report

PLAIN = ("dose", "price", "age", "age~1", "age~2")
NAMES = Design(
    (
        *(Line(name, name) for name in PLAIN),
        Categories("colour", "colour", ("red", "blue")),
    )
)
TASKS = ("north", "south", "west")
BY_TASK = {"west": 0.1, "north": 0.3, "south": 0.2, "east": 9.0}


def moments(names=NAMES, tasks=TASKS, d=7):
    X = np.random.default_rng(0).normal(size=(30, d))
    labels = np.array(tasks, dtype=object)[np.arange(30) % len(tasks)]
    return summarize_tasks(from_labels(X, np.zeros(30), labels, features=names))


def resolve(prior, **settings):
    return prior.resolve(moments(**settings))


def test_known_values_are_rows_with_targets():
    prior = resolve(FeaturePrior.near({"price": -0.5, 0: 2}, weight=4.0))
    assert prior.matrix(7).toarray().tolist() == [
        [0, 2, 0, 0, 0, 0, 0],
        [2, 0, 0, 0, 0, 0, 0],
    ]
    values, given = prior.targets(TASKS)
    assert values.tolist() == [[-1.0] * 3, [4.0] * 3]
    assert given.tolist() == [True, True]


def test_values_by_task_follow_the_order_of_the_tasks():
    prior = resolve(FeaturePrior.near({"dose": BY_TASK, "age": 1.0}))
    for tasks in (TASKS, TASKS[::-1]):
        values, _ = prior.targets(tasks)
        assert values.tolist() == [[BY_TASK[task] for task in tasks], [1.0] * 3]
    series = FeaturePrior.near({"dose": pd.Series(BY_TASK), "age": 1.0})
    assert series == FeaturePrior.near({"dose": BY_TASK, "age": 1.0})
    numbered = FeaturePrior.near({"dose": {np.int64(2): 0.2, 1: 0.1}})
    values, _ = resolve(numbered, tasks=(1, 2)).targets((1, 2))
    assert values.tolist() == [[0.1, 0.2]]


def test_every_task_must_have_a_value():
    prior = FeaturePrior.near({"dose": {"north": 0.3, "south": 0.2}})
    with pytest.raises(
        ValueError, match=r"that of 'dose' in task 'west' is missing\.$"
    ):
        resolve(prior)
    # As labels of task priors, "1" is not 1.
    with pytest.raises(ValueError, match="'dose' in task 1 is missing"):
        resolve(FeaturePrior.near({"dose": {"1": 0.1}}), tasks=(1,))


@pytest.mark.parametrize("seed", range(5))
def test_rows_and_targets_measure_the_sum_over_statements(seed):
    rng = np.random.default_rng(seed)
    P, (a, b, w) = rng.normal(size=(7, 3)), rng.uniform(0.1, 9.0, 3)
    D, C = rng.normal(size=(2, 7)), rng.normal(size=(2, 3))
    prior = (
        FeaturePrior.similar([("dose", "age")], w)
        + FeaturePrior.nonnegative(["dose"])
        + FeaturePrior.near({"price": a, "dose": BY_TASK}, b)
        + FeaturePrior.common(["age"])
        + FeaturePrior.from_matrix(D, target=C)
        + FeaturePrior.from_matrix(D[0])
        + FeaturePrior.shrink([2], w)
    )
    known = np.array([BY_TASK[task] for task in TASKS])
    expected = (
        w * np.sum((P[0] - P[2]) ** 2)
        + b * (np.sum((P[1] - a) ** 2) + np.sum((P[0] - known) ** 2))
        + np.sum((D @ P - C) ** 2)
        + np.sum((D[0] @ P) ** 2)
        + w * np.sum(P[2] ** 2)
    )
    resolved = resolve(prior)
    values, given = resolved.targets(TASKS)
    found = np.sum((resolved.matrix(7) @ P - values) ** 2)
    assert found == pytest.approx(expected, rel=1e-12)
    assert given.tolist() == [False, True, True, True, True, False, False]
    assert not values[~given].any()

    # Features divided by their scale: relations see scaled coefficients, targets not.
    scale = rng.uniform(0.1, 9.0, 7)
    scaled, again = resolved.rows_in_units(scale, TASKS)
    misfits = scaled @ (scale[:, np.newaxis] * P) - again.values
    # Rows with targets are as long as before, whatever the units.
    D = resolved.matrix(7).toarray()[given]
    lengths = np.linalg.norm(D, axis=1) / np.linalg.norm(D / scale, axis=1)
    plain = lengths[:, np.newaxis] * (D @ P - values[given])
    np.testing.assert_allclose(misfits[given], plain)
    rows = np.linalg.norm(scaled.toarray(), axis=1)
    np.testing.assert_allclose(rows[given], np.linalg.norm(D, axis=1))
    other = resolved.matrix(7) @ (scale[:, np.newaxis] * P)
    np.testing.assert_allclose(misfits[~given], other[~given])


def test_without_targets_there_are_none():
    prior = resolve(FeaturePrior.similar([(0, 1)]) + FeaturePrior.nonnegative([0]))
    assert prior.targets(TASKS) is None
    D, targets = prior.rows_in_units(np.full(7, 2.0), TASKS)
    assert targets is None
    np.testing.assert_array_equal(D.toarray(), prior.matrix(7).toarray())
    assert resolve(FeaturePrior(())).targets(TASKS) is None


@pytest.mark.parametrize(
    ("target", "values"),
    [
        (1, [[1, 1, 1], [1, 1, 1]]),
        ([1.0, 2.0], [[1, 1, 1], [2, 2, 2]]),
        ([[1, 2, 3], [4, 5, 6]], [[1, 2, 3], [4, 5, 6]]),
        (0.0, [[0, 0, 0], [0, 0, 0]]),
    ],
)
def test_targets_of_a_matrix(target, values):
    prior = resolve(FeaturePrior.from_matrix(np.eye(7)[:2], target=target))
    found, given = prior.targets(TASKS)
    assert found.tolist() == values
    assert given.all()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (np.nan, "target must hold finite numbers"),
        ("one", "target must hold finite numbers"),
        ([1.0, 2.0, 3.0], r"\(2,\) or \(2, tasks\) for 2 rows of D: got shape \(3,\)"),
        (np.ones((3, 2)), r"got shape \(3, 2\)"),
        (np.ones((2, 3, 1)), r"got shape \(2, 3, 1\)"),
    ],
)
def test_other_targets_are_refused(target, words):
    with pytest.raises(ValueError, match=words):
        FeaturePrior.from_matrix(np.eye(7)[:2], target=target)


def test_targets_by_task_need_a_column_for_each():
    prior = FeaturePrior.from_matrix(np.eye(7)[:2], target=np.ones((2, 2)))
    with pytest.raises(ValueError, match="one column per task: it has 2 for 3 tasks"):
        resolve(prior)


def test_signs_are_constraints_of_the_named_features_alone():
    prior = FeaturePrior.nonnegative(["dose", "age"]) + FeaturePrior.nonpositive([1])
    resolved = resolve(prior)
    found = resolved.signs(7)
    assert found.dtype == np.int8
    assert found.tolist() == [1, -1, 1, 0, 0, 0, 0]
    assert resolved.matrix(7).shape == (0, 7)
    assert resolve(FeaturePrior.near({0: 1.0})).signs(7) is None
    with pytest.raises(ValueError, match="unknown feature 'colour'"):
        resolve(FeaturePrior.nonnegative(["colour"]))


@pytest.mark.parametrize(
    ("features", "places"),
    [
        (["dose"], (0,)),
        (["age"], (2, 3, 4)),
        ([2], (2, 3, 4)),
        (["age~1"], (3,)),
        (["colour", "price"], (1, 5, 6)),
        (["colour=blue", "dose", 0], (0, 6)),
        ([], ()),
    ],
)
def test_common_effects_include_wiggles_and_categories(features, places):
    resolved = resolve(FeaturePrior.common(features))
    assert resolved.common_features == places
    assert resolve(resolved).common_features == places
    assert resolved.matrix(7).shape == (0, 7)


def test_common_effects_of_features_without_names():
    prior = FeaturePrior.common([2, 0]) + FeaturePrior.common([1])
    assert resolve(prior, names=None).common_features == (0, 1, 2)
    with pytest.raises(ValueError, match="X has no column names"):
        resolve(FeaturePrior.common(["age"]), names=None)
    with pytest.raises(ValueError, match=r"unknown feature 'agee'.*'age'"):
        resolve(FeaturePrior.common(["agee"]))
    with pytest.raises(ValueError, match="positions 0 … 6: got 7"):
        resolve(FeaturePrior.common([7]))


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        (
            FeaturePrior.nonnegative(["price"]) + FeaturePrior.nonpositive([1]),
            "'price' is both nonnegative and nonpositive.",
        ),
        (
            FeaturePrior.near({"dose": 0.3}) + FeaturePrior.nonpositive(["dose"]),
            "'dose' is near 0.3 and nonpositive.",
        ),
        (
            FeaturePrior.nonnegative([0])
            + FeaturePrior.near({"dose": BY_TASK | {"west": -2}}, 3.0),
            "'dose' is near -2 and nonnegative.",
        ),
    ],
)
def test_contradictions_are_refused(prior, words):
    with pytest.raises(ValueError, match="must not state that") as refused:
        resolve(prior)
    assert str(refused.value) == f"feature_prior must not state that {words}"


def test_what_is_no_contradiction():
    prior = FeaturePrior.near({"dose": 0.0, "price": -1.0, "age": BY_TASK})
    prior += FeaturePrior.nonnegative([0, "dose"]) + FeaturePrior.nonpositive([1])
    assert resolve(prior + FeaturePrior.common([0, 2])).signs(7)[:2].tolist() == [1, -1]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: FeaturePrior.near({"dose": np.inf}), "finite number.*inf for 'dose'"),
        (lambda: FeaturePrior.near({"dose": True}), "finite number.*True for 'dose'"),
        (lambda: FeaturePrior.near({"dose": {"a": "x"}}), "'x' for 'dose'"),
        (lambda: FeaturePrior.near(["dose"]), "must map features to numbers: got list"),
        (lambda: FeaturePrior.near({"dose": 1.0}, 0.0), "weight must be positive"),
        (lambda: FeaturePrior.nonnegative("dose"), "a list of names .* got 'dose'"),
        (lambda: FeaturePrior.nonpositive(3), "a list of names or positions: got 3"),
        (lambda: FeaturePrior.common("age"), "a list of names or positions: got 'age'"),
        (lambda: FeaturePrior.common([True]), "must be text or a position: got True"),
    ],
)
def test_other_statements_are_refused(build, words):
    with pytest.raises((ValueError, TypeError), match=words):
        build()


ALL = (
    FeaturePrior.similar([("dose", "price")], 2.0)
    + FeaturePrior.near({"dose": 0.3, "age": BY_TASK}, 0.5)
    + FeaturePrior.nonpositive(["price"])
    + FeaturePrior.nonnegative(["dose"])
    + FeaturePrior.common(["age"])
)


def test_statements_survive_json():
    for prior in (ALL, resolve(ALL)):
        again = FeaturePrior.from_plain(json.loads(json.dumps(prior.to_plain())))
        assert again == prior
        assert hash(again) == hash(prior)
    days = (pd.Timestamp("2020-01-01").date(), pd.Timestamp("2020-02-01").date())
    dated = FeaturePrior.near({"dose": dict(zip(days, (1, 2), strict=True))})
    assert FeaturePrior.from_plain(json.loads(json.dumps(dated.to_plain()))) == dated
    for target in (1.5, np.ones((1, 3))):
        prior = resolve(FeaturePrior.from_matrix(np.eye(7)[:1], target=target))
        again = FeaturePrior.from_plain(json.loads(json.dumps(prior.to_plain())))
        np.testing.assert_array_equal(again.targets(TASKS)[0], prior.targets(TASKS)[0])


def test_statements_in_words():
    assert repr(ALL) == (
        "FeaturePrior(1 relation + 2 known values + 2 signs + 1 common effect)"
    )
    rows = [(row.label, *(cell.text for cell in row.cells)) for row in ALL.table().rows]
    assert rows == [
        ("dose, price", "similar", "2"),
        ("dose", "near 0.3", "0.5"),
        ("age", "near 0.1 (west), 0.3 (north), 0.2 (south), 9 (east)", "0.5"),
        ("price", "at most 0", "–"),
        ("dose", "at least 0", "–"),
        ("age", "the same in all tasks", "–"),
    ]
    named = resolve(ALL).table(NAMES).rows
    assert [row.label for row in named[3:]] == ["price", "dose", *NAMES[2:5]]
    sums = FeaturePrior.from_matrix(np.ones((2, 2)), target=[[1, 1, 1], [-1, 0, 2]])
    words = [row.cells[0].text for row in sums.table().rows]
    assert words == ["near 1", "near −1 … 2"]
    many = FeaturePrior.near({"dose": dict.fromkeys("abcdef", 0.5)})
    assert many.table().rows[0].cells[0].text.endswith("0.5 (d), …")
    assert "at most 0" in ALL._repr_html_()


def test_violations_are_measured_against_targets():
    D, given = csr_array(np.array([[2.0, 0.0], [1.0, 1.0]])), np.array([True, False])
    targets = Targets(np.array([[0.6, 0.6], [0.0, 0.0]]), given)

    def measure(first, second=0.0):
        return measure_violations(D, np.full((2, 2), [[first], [second]]), targets)

    assert measure(0.3, -0.3) == pytest.approx([0.0, 0.0])
    assert measure(-0.3, -0.3) == pytest.approx([1.0, 1.0])
    # 0.6 of at most 2 · 1 + 0.6, and 1 of at most √2 · √2 · 1.
    assert measure(0.0, 1.0) == pytest.approx([0.6 / 2.6, 0.5])
    unscaled = Targets(targets.values / 2.0, given)
    P = np.array([[0.1, 0.5], [0.2, -1.0]])
    np.testing.assert_allclose(
        measure_violations(D, P, targets)[0],
        measure_violations(csr_array(np.eye(2)), P, unscaled)[0],
    )


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(240, 3)), columns=["dose", "price", "age"])
    task = np.array(TASKS)[np.arange(240) % 3]
    y = X @ [0.3, -1.0, 0.5] + 0.3 * rng.normal(size=240)
    prior = FeaturePrior.near({"dose": 0.3, "price": dict.fromkeys(TASKS, 2.0)}, 4.0)
    prior += FeaturePrior.nonnegative(["dose"]) + FeaturePrior.common(["age"])
    prior += FeaturePrior.from_matrix([[1.0, 0.0, 1.0]], target=0.8)
    model = MultiTaskRegressor(0.1, 1e-6, feature_prior=prior, task_prior="mean")
    return model.fit(X, y, task=task), (X, y, task)


def test_the_audit_tests_known_values(fitted):
    audit = audit_prior(fitted[0], cv=None)
    found = {one.relation: one for one in audit.relations if one.kind == "feature"}
    assert set(found) == {"dose ~ 0.3", "price ~ 2", "dose + age ~ 0.8"}
    assert {name: one.verdict for name, one in found.items()} == {
        "dose ~ 0.3": "agrees",
        "dose + age ~ 0.8": "agrees",
        "price ~ 2": "disagrees",
    }
    assert found["price ~ 2"].weight == 4.0
    # −1, the largest coefficient, in place of 2: |−3| over 1 + 2.
    assert found["price ~ 2"].violation_before == pytest.approx(1.0, abs=0.01)
    assert found["dose ~ 0.3"].violation_before < 0.2


def test_fitted_models_show_and_keep_statements(fitted, tmp_path):
    model, (X, y, task) = fitted
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    plain = model.feature_prior_.to_plain()
    assert again.feature_prior_.to_plain() == plain
    assert again.feature_prior.to_plain() == model.feature_prior.to_plain()
    prior = model.summary().feature_prior
    assert prior.n_relations == 3
    misfits = [2 * (model.coef_[:, 0] - 0.3), 2 * (model.coef_[:, 1] - 2.0)]
    misfits.append(model.coef_[:, 0] + model.coef_[:, 2] - 0.8)
    assert prior.violation == pytest.approx(np.sum(np.square(misfits)))
    assert prior.words == "2 known values + 1 sign + 1 common effect + 1 relation"
    assert prior.words in model.summary().to_text()
    tables = {one.name: one for one in report(model, X, y, task=task).content.tables}
    relations = dict(
        zip(
            tables["relations"].columns[0].values,
            tables["relations"].columns[1].values,
            strict=True,
        )
    )
    assert relations["price ~ 2"] > 0.9
    assert relations["dose ~ 0.3"] < 0.2
