"""Tables of a report: the model's numbers, cut to a page, what is cut is counted."""

import numpy as np
import pytest

from paper_data import PAPER
from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressorCV,
    TaskPrior,
)
from priormtl.rendering import join_words
from priormtl.reports import Column, Table, report
from priormtl.reports.build import build_content, list_facts
from priormtl.reports.content import (
    LONGEST_LABEL,
    percent,
    spell,
    spell_label,
)
from priormtl.reports.model import FittedModel, score_training
from priormtl.reports.tables import MOST_BYTES, relation_table, task_table
from shown_models import (
    TASKS,
    audit_of,
    drawn_rows,
    fitted_of,
    model_of,
    resolved,
    tuned_model,
)

# Content


TABLE = Table(
    "t",
    "T",
    (Column("name", "Name", ("a", "b", "c")), Column("x", "X", np.arange(3.0))),
)


def test_rows_are_taken_in_the_order_asked_for():
    cut = TABLE.take(np.array([2, 0]))
    assert cut["name"] == ("c", "a")
    assert cut["x"].tolist() == [2.0, 0.0]
    assert cut.left_out == 1
    assert len(cut) == 2


def test_what_was_left_out_adds_up():
    assert TABLE.take(np.array([0, 1])).take(np.array([0])).left_out == 2


def test_values_are_frozen():
    with pytest.raises(AttributeError):
        TABLE.title = "other"


# Tasks


def test_numbers_are_those_of_the_model():
    model = tuned_model()
    fitted = FittedModel.read(model)
    scores = score_training(fitted)
    table = task_table(fitted, scores)
    assert table["task"] == TASKS
    assert np.array_equal(table["intercept"], model.intercept_)
    assert table["norm"] == pytest.approx(np.linalg.norm(model.coef_, axis=1))
    assert np.array_equal(table["score"], scores.by_task)


def test_own_parts_have_a_column():
    fitted = fitted_of(np.ones((2, 2)), own_coef_=[[0.0, 0.0], [3.0, 4.0]])
    assert task_table(fitted, None)["own"].tolist() == [0.0, 5.0]


def test_a_model_without_intercepts_has_zeros():
    fitted = fitted_of(np.ones((2, 2)), intercept_=0.0)
    assert task_table(fitted, None)["intercept"].tolist() == [0.0, 0.0]


# Relations


def table_of(prior, coef, **attributes):
    d = np.shape(coef)[1]
    fitted = fitted_of(coef, feature_prior_=resolved(prior, d), **attributes)
    return relation_table(fitted, None)


def test_violation_is_between_holding_and_contradicting():
    prior = FeaturePrior.similar([(0, 1), (0, 2)]) + FeaturePrior.opposite([(0, 2)])
    table = table_of(prior, [[1.0, 1.0, -1.0], [2.0, 2.0, -2.0]])
    assert table["relation"] == ("x0 ~ x2", "x0 ~ x1", "x0 ~ −x2")
    assert table["violation_after"].tolist() == [1.0, 0.0, 0.0]
    assert table["share"].tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_violation_does_not_depend_on_units(unit):
    prior = FeaturePrior.similar([(0, 1)])
    table = table_of(prior, unit * np.array([[1.0, 3.0]]))
    assert table["violation_after"] == pytest.approx([2.0 / 6.0])


def test_violation_tells_large_effects_from_small_ones():
    # Of either pair one coefficient is zero, as row penalties make them.
    prior = FeaturePrior.similar([(0, 1), (2, 3)])
    table = table_of(prior, [[0.02, 0.0, 3.0, 0.0]])
    assert table["relation"][0] == "x2 ~ x3"
    assert table["violation_after"] == pytest.approx([0.5, 0.01 / 3.0])


def test_own_parts_of_outlier_tasks_violate_nothing():
    prior = FeaturePrior.similar([(0, 1)])
    shared = np.array([[1.0, 1.0], [2.0, 2.0]])
    coef = np.array([[1.0, 1.0], [2.0, -7.0]])
    table = table_of(prior, coef, own_coef_=coef - shared)
    assert table["violation_after"].tolist() == [0.0]


def test_shares_are_those_of_the_penalty():
    model = tuned_model()
    table = relation_table(FittedModel.read(model), None)
    assert table["share"].sum() == pytest.approx(1.0)
    D = np.vstack([part.matrix(6).toarray() for part in model.feature_prior_.parts])
    scaled = model.coef_ * model.feature_scale_
    sizes = np.linalg.norm(D @ scaled.T, axis=1) ** 2
    assert np.sort(table["share"]) == pytest.approx(np.sort(sizes / sizes.sum()))


def test_standardised_fits_compare_standardised_coefficients():
    prior = FeaturePrior.similar([(0, 1)])
    scales = {"standardize": True, "feature_scale_": np.array([1.0, 2.0])}
    assert table_of(prior, [[2.0, 1.0]], **scales)["violation_after"] == [0.0]


def test_rows_of_a_matrix_are_spelled_as_sums():
    table = table_of(
        FeaturePrior.from_matrix([[1, -2, 0.5], [0, 0, 0]]), np.ones((1, 3))
    )
    assert "x0 − 2 x1 + 0.5 x2 ~ 0" in table["relation"]


def test_zero_coefficients_contradict_nothing():
    table = table_of(FeaturePrior.similar([(0, 1)]), np.zeros((2, 2)))
    assert table["violation_after"].tolist() == [0.0]
    assert table["share"].tolist() == [0.0]


def test_without_relations_there_is_no_table():
    assert relation_table(fitted_of([[1.0]]), None) is None
    assert table_of(FeaturePrior(()), [[1.0]]) is None


def test_an_audit_brings_its_own_relations():
    table = relation_table(fitted_of([[1.0]]), audit_of())
    assert table["relation"] == ("age ~ sleep",)
    assert table["violation_before"].tolist() == [0.9]
    assert table["verdict"] == ("disagrees",)


# Limits


def big_model(d, m, name, task="task {}", **attributes):
    coef = np.random.default_rng(0).normal(size=(m, d))
    features, tasks = (
        [name.format(j) for j in range(d)],
        [task.format(i) for i in range(m)],
    )
    return model_of(coef, features, tasks, **attributes)


@pytest.fixture(scope="module")
def largest():
    prior = resolved(FeaturePrior.grid(50, 100), 5000)
    return report(big_model(5000, 1000, "expression of gene {}", feature_prior_=prior))


def test_five_thousand_features_and_a_thousand_tasks_have_a_place(largest):
    size = len(largest.to_html().encode())
    assert 0.8 * MOST_BYTES < size <= MOST_BYTES
    block = largest.content.block
    assert block.values.shape[1] == 1000
    assert block.features_left_out == 5000 - len(block.values) > 0
    assert len(largest.content.table("features")) == 5000


def test_the_foremost_features_stay(largest):
    features, _ = largest.content.block_names
    model = largest._fitted.model
    norms = np.linalg.norm(model.coef_, axis=0)
    place = np.argsort(-norms, kind="stable")[: len(features)]
    assert features == tuple(model.feature_names_in_[place])
    assert np.array_equal(largest.content.block.values, model.coef_[:, place].T)


@pytest.mark.parametrize(
    ("d", "m", "name", "task"),
    [
        (8000, 40, "<" * 200 + "{}", "{}"),
        (3, 30000, "{}", "é" * 100 + "{}"),
        (100, 900, "{}", "&<" * 90 + "{}"),
    ],
)
def test_long_names_have_a_place_too(d, m, name, task):
    made = report(big_model(d, m, name, task))
    assert len(made.to_html().encode()) <= MOST_BYTES
    for table in made.content.tables:
        assert len(table) + table.left_out == (d if table.name == "features" else m)


def test_of_too_many_tasks_the_farthest_stay():
    coef = np.zeros((30000, 1))
    coef[12345] = 7.0
    kept = report(model_of(coef, None, [f"t{i}" for i in range(30000)])).content
    assert "t12345" in kept.table("tasks")["task"]
    assert kept.block.tasks_left_out == kept.table("tasks").left_out > 0


def test_zero_features_are_not_missed():
    coef = np.zeros((200, 2000))
    coef[:, :3] = 1.0
    block = report(model_of(coef)).content.block
    assert block.features_left_out == block.tasks_left_out == 0
    assert len(block.values) < 2000


# Assemble


KEYS = ["quality", "features", "prior", "outliers", "certificate"]


def test_answers_come_in_the_readers_order():
    for fitted in (FittedModel.read(tuned_model()), fitted_of([[1.0]])):
        content = build_content(fitted, None, None, None)
        assert [finding.key for finding in content.findings] == KEYS
        assert all(finding.sentence.endswith(".") for finding in content.findings)


def test_tables_are_there_where_there_is_something_to_list():
    names = [t.name for t in build_content(fitted_of([[1.0]]), None, None, None).tables]
    assert names == ["features", "tasks"]
    content = build_content(FittedModel.read(tuned_model()), None, audit_of(), "Exams")
    names = [table.name for table in content.tables]
    first = ["features", "tasks", "calibration"]
    assert names == [*first, "relations", "structures", "search"]
    assert content.title == "Exams"


def test_the_block_lies_in_the_order_of_the_tables():
    model = tuned_model()
    content = build_content(FittedModel.read(model), None, None, None)
    features, tasks = content.block_names
    names = model.feature_names_in_.tolist()
    for i, name in enumerate(features):
        assert (
            content.block.values[i].tolist()
            == model.coef_[:, names.index(name)].tolist()
        )
    assert tasks == content.table("tasks")["task"]
    assert content.title == "What 4 tasks share in 6 features"


def test_structures_are_those_of_the_summary():
    fitted = FittedModel.read(tuned_model())
    content = build_content(fitted, None, None, None)
    table, tried = content.table("structures"), fitted.summary.structures
    assert list(table["structure"]) == [one.structure for one in tried]
    assert table["score"].tolist() == [one.score for one in tried]
    assert table["difference"].tolist() == [one.difference for one in tried]
    chosen = [one.structure for one in tried if one.chosen]
    assert list(table["chosen"]).count("yes") == len(chosen) == 1
    search = content.table("search")
    place = list(search["chosen"]).index("yes")
    assert search["structure"][place] == chosen[0]
    assert set(search["structure"]) == set(table["structure"])


def test_a_given_structure_has_no_table():
    X, y, task, _ = drawn_rows()
    grids = {"lams": 2, "thetas": [0.0], "epsilons": [1.0], "cv": 2}
    model = MultiTaskRegressorCV(**grids, **PAPER).fit(X, y, task=task)
    content = build_content(FittedModel.read(model), None, None, None)
    assert content.table("structures") is None
    names = [column.name for column in content.table("search").columns]
    assert "structure" not in names


# Facts


def test_structures_are_told():
    model = tuned_model()
    facts = dict(list_facts(FittedModel.read(model)))
    adaptive = model.structure_["ties"] == "adaptive"
    assert ("estimated" in facts["Task coupling"]) == adaptive
    tied = model.structure_["fit_intercept"] == "tied"
    assert ("coupled" in facts["Intercepts"]) == tied
    assert "Task coupling" not in dict(list_facts(fitted_of([[1.0]], task_prior=None)))


def test_chosen_strengths_are_told_from_set_ones():
    model = tuned_model()
    facts = dict(list_facts(FittedModel.read(model)))
    assert facts["Model"] == "MultiTaskRegressorCV"
    assert facts["epsilon"] == f"{model.epsilon_:g} (chosen)"
    assert dict(list_facts(fitted_of([[1.0]])))["epsilon"] == "1"


def test_an_outlier_strength_is_told():
    facts = dict(list_facts(fitted_of([[1.0]], outlier_strength_=2.5)))
    assert facts["Outlier strength"] == "2.5"


def test_priors_are_named():
    facts = dict(list_facts(fitted_of([[1.0]], task_prior=None)))
    assert facts["Feature prior"] == facts["Task prior"] == "none"
    known = {"feature_prior_": FeaturePrior.similar([(0, 1)])}
    known["task_prior"] = TaskPrior.mean()
    facts = dict(list_facts(fitted_of([[1.0, 2.0]], **known)))
    assert facts["Feature prior"] == "1 relation"
    assert facts["Task prior"] == TaskPrior.mean().words


def test_classifiers_name_their_loss():
    X, y, task, _ = drawn_rows()
    model = MultiTaskClassifier(5.0).fit(X, y > 0, task=task)
    assert dict(list_facts(FittedModel.read(model)))["Loss"] == "logistic"


# Wording


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0.0, "0"),
        (-1.5, "−1.5"),
        (123456.0, "123,500"),
        (1e-9, "1e−09"),
        (1e300, "1e+300"),
        (float("nan"), "unknown"),
        (-float("inf"), "−∞"),
        (0.12345678, "0.1235"),
    ],
)
def test_numbers_are_spelled(number, words):
    assert spell(number) == words


def test_shares_are_percentages():
    assert percent(0.1234) == "12 %"
    assert percent(-0.0123) == "−1.2 %"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and c"),
        (["a", "b", "c", "d", "e"], "a, b, c and 2 more"),
    ],
)
def test_names_are_joined(names, words):
    assert join_words(names, 3) == words


def test_any_label_becomes_text_that_can_be_written():
    assert spell_label(("a", 1)) == "('a', 1)"
    assert spell_label("\ud800x").encode()
    assert len(spell_label("x" * 1000)) == LONGEST_LABEL


# Predicted and actual


def test_given_rows_are_compared_with_predictions_part_by_part():
    X, y, task, _ = drawn_rows()
    model = tuned_model()
    content = report(model, X, y, task=task, source="exams.csv").content
    table = content.table("calibration")
    order = np.argsort(model.predict(X, task=task), kind="stable")
    first = np.array_split(order, 10)[0]
    assert table["actual"][0] == pytest.approx(np.mean(y[first]))
    assert np.all(np.diff(table["predicted"]) >= 0)
    assert np.all(table["low"] <= table["high"])
    facts = dict(content.facts)
    assert facts["Data"] == "exams.csv"
    assert facts["Rows scored"] == f"{len(y):,}"
    held_out = report(model).content.table("calibration")
    assert held_out["rows"].sum() == len(y)
    assert "held-out rows" in held_out.note


def test_probabilities_have_a_reliability_curve_and_a_log_loss():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(400, 2)), np.arange(400) % 4
    y = rng.random(400) < 1.0 / (1.0 + np.exp(-2.0 * X[:, 0]))
    model = MultiTaskClassifier(0.1, task_prior="mean").fit(X, y, task=task)
    content = report(model, X, y, task=task).content
    table = content.table("calibration")
    assert np.abs(table["predicted"] - table["actual"]).max() < 0.2
    chance = model.predict_proba(X, task=task)[:, 1]
    loss = -np.mean(np.log(np.where(y, chance, 1.0 - chance)))
    numbers = content.finding("quality").numbers
    assert numbers["rows_log_loss"] == pytest.approx(loss)
    assert f"{loss:.4g}" in table.note


def test_tasks_have_effects_with_intervals():
    model = tuned_model()
    table = report(model).content.table("tasks")
    assert table["effect"] == pytest.approx(model.task_effect_)
    inside = (table["effect_low"] < table["effect"]) & (
        table["effect"] < table["effect_high"]
    )
    assert np.all(inside)
    assert "95 % intervals" in table.note
