import json
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

import priormtl
from drawn_tasks import plant_relations
from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    audit_prior,
    load,
    save,
    summarize,
)
from priormtl.audits import audit as auditing
from priormtl.audits import describe_rows
from priormtl.audits.relations import StatementTest, estimate_coefficients
from priormtl.datasets import make_related_tasks


def fitted(planted, *, kind=MultiTaskRegressor, **settings):
    model = kind(feature_prior=planted.prior, **settings)
    return model.fit(planted.X, planted.y, task=planted.task)


def relations(planted, **settings):
    """Relations of a fitted model, judged by its rows; nothing is held out."""
    rows = (planted.X, planted.y)
    return audit_prior(
        fitted(planted, **settings), *rows, task=planted.task, cv=None
    ).relations


def features(audit):
    return [r for r in audit.relations if r.kind == "feature"]


@pytest.mark.parametrize("theta", [0.01, 10_000.0])
@pytest.mark.parametrize("size", [{}, {"m": 1, "n": 60}, {"n": 10, "common": 2.0}])
def test_a_wrong_relation_comes_out_on_top(theta, size):
    for seed, flip in enumerate(["similar", "opposite"]):
        planted = plant_relations(seed, flip=flip, **size)
        found = relations(planted, lam=2.0, theta=theta, epsilon=10.0)
        assert found[0].relation == planted.wrong


@pytest.mark.parametrize("seed", range(2))
def test_so_it_does_for_classes(seed):
    planted = plant_relations(seed, n=80, classification=True)
    found = relations(planted, kind=MultiTaskClassifier, lam=2.0, theta=5.0)
    assert found[0].relation == planted.wrong


def test_right_relations_are_rarely_blamed():
    p = []
    for seed in range(9):
        data = make_related_tasks(4, 12, 25, random_state=seed)
        model = MultiTaskRegressor(2.0, 1.0, 10.0, feature_prior=data.feature_prior)
        audit = audit_prior(model.fit(data.X, data.y, task=data.task))
        p += [relation.p_value for relation in features(audit)]
    assert np.mean(np.array(p) < 0.05) < 0.15
    assert 0.3 < np.median(p) < 0.8


def test_poorly_determined_relations_are_not_blamed():
    # Features 2 and 3 are nearly the same column: only their sum is known.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 4))
    X[:, 3] = X[:, 2] + 1e-3 * rng.standard_normal(80)
    y = X @ [1.0, -1.0, 1.0, 1.0] + rng.standard_normal(80)
    prior = FeaturePrior.similar([(0, 1), (2, 3)])
    model = MultiTaskRegressor(0.0, 1e-3, feature_prior=prior).fit(X, y)
    first, second = audit_prior(model).relations
    assert first.relation == "x0 ~ x1"
    assert first.verdict == "disagrees"
    assert second.verdict != "disagrees"


def test_sensitivity_is_the_derivative_by_the_log_of_the_weight():
    planted = plant_relations(1)

    def objective(factor):
        weights = np.ones(2)
        weights[0] = factor
        parts = [
            FeaturePrior.similar([pair], weight=w)
            for pair, w in zip([(0, 1), (2, 3)], weights, strict=True)
        ]
        model = MultiTaskRegressor(
            1.0, 3.0, 2.0, feature_prior=parts[0] + parts[1], tol=1e-12
        )
        return model.fit(planted.X, planted.y, task=planted.task)

    step = 1e-3
    slope = objective(np.exp(step)).objective_ - objective(np.exp(-step)).objective_
    audit = audit_prior(objective(1.0))
    row = next(r for r in audit.relations if r.relation == "x0 ~ x1")
    assert row.sensitivity == pytest.approx(slope / (2 * step), rel=1e-4)


def test_shares_are_parts_of_the_penalty_and_violations_shrink():
    planted = plant_relations(3)
    model = fitted(planted, lam=1.0, theta=20.0)
    rows = features(audit_prior(model))
    D = np.zeros((len(rows), 12))
    for k, row in enumerate(rows):
        a, b = (int(name.removeprefix("x")) for name in (row.first, row.second))
        D[k, a], D[k, b] = 1.0, -1.0 if row.sign == "similar" else 1.0
    penalty = 0.5 * 20.0 * np.sum((D @ model.coef_.T) ** 2)
    assert sum(r.sensitivity for r in rows) == pytest.approx(penalty)
    assert sum(r.share for r in rows) == pytest.approx(1.0)
    assert all(0 <= r.violation_after <= r.violation_before <= 1 for r in rows)


def test_units_of_features_change_nothing_that_is_judged():
    planted = plant_relations(4)
    scale = 10.0 ** np.arange(-6, 6)
    model = fitted(planted, lam=2.0, standardize=True)
    rescaled = fitted(planted._replace(X=planted.X * scale), lam=2.0, standardize=True)
    for a, b in zip(
        audit_prior(model).relations, audit_prior(rescaled).relations, strict=True
    ):
        assert a.relation == b.relation
        assert a.p_value == pytest.approx(b.p_value, rel=1e-3, abs=1e-12)
        assert a.violation_before == pytest.approx(b.violation_before, abs=1e-3)


def test_rows_and_statistics_say_the_same():
    planted = plant_relations(5)
    model = fitted(planted)
    rows = audit_prior(model, planted.X, planted.y, task=planted.task, n_repeats=1)
    assert rows.relations == audit_prior(model).relations
    statistics = summarize(planted.X, planted.y, planted.task)
    again = MultiTaskRegressor(feature_prior=planted.prior).fit_statistics(statistics)
    found = audit_prior(again).relations
    assert [r.relation for r in found] == [r.relation for r in rows.relations]


def test_a_good_prior_helps_and_a_bad_one_does_harm():
    data = make_related_tasks(10, 20, 30, n_informative=20, noise=3.0, random_state=1)
    arguments = (data.X, data.y)
    settings = {"lam": 0.1, "theta": 100.0, "epsilon": 1.0}
    good = MultiTaskRegressor(**settings, feature_prior=data.feature_prior)
    held_out = {"task": data.task, "n_repeats": 2}
    audit = audit_prior(good.fit(*arguments, task=data.task), *arguments, **held_out)
    assert audit.helped.verdict == "helped"
    assert audit.helped.change < 0 > audit.helped.high
    assert audit.helped.sentence.startswith("The prior lowered the mean squared error")

    signs = [
        (a, b, -s)
        for part in data.feature_prior.parts
        for a, b, s in zip(part.first, part.second, part.sign, strict=True)
    ]
    bad = MultiTaskRegressor(**settings, feature_prior=FeaturePrior.from_graph(signs))
    audit = audit_prior(bad.fit(*arguments, task=data.task), *arguments, **held_out)
    assert audit.helped.verdict == "harmed"
    assert "did harm" in str(audit.helped)


def test_tuned_models_compare_each_at_its_own_lam():
    planted = plant_relations(6)
    model = fitted(
        planted, kind=MultiTaskRegressorCV, lams=4, thetas=[1.0], epsilons=[1.0]
    )
    audit = audit_prior(model, planted.X, planted.y, task=planted.task, n_repeats=2)
    assert len(audit.helped.lams_without) == 10
    lams = model.cv_results_["param_lam"].data
    assert set(audit.helped.lams_without) <= set(lams)
    assert "best for each" in audit.helped.method


def test_seeds_decide_and_splitters_are_heeded():
    planted = plant_relations(7)
    model, rows = fitted(planted), (planted.X, planted.y)

    def errors(**options):
        options = {"task": planted.task, "n_repeats": 1, **options}
        return audit_prior(model, *rows, **options).helped.with_prior

    assert np.array_equal(errors(cv=2), errors(cv=2))
    assert not np.array_equal(errors(cv=2), errors(cv=2, random_state=1))
    halves = [(np.arange(0, 100, 2), np.arange(1, 100, 2))] * 2
    assert len(errors(cv=halves)) == 2


def test_what_is_not_known_is_said():
    planted = plant_relations(8)
    audit = audit_prior(fitted(planted))
    assert audit.helped is None
    assert "pass the X, y and task" in audit.reason
    skipped = audit_prior(
        fitted(planted), planted.X, planted.y, task=planted.task, cv=None
    )
    assert skipped.helped is None
    assert "set cv to a number of folds" in skipped.reason
    off = audit_prior(
        fitted(planted, theta=0.0), planted.X, planted.y, task=planted.task
    )
    assert off.helped is None
    assert "theta is 0" in off.reason
    assert all(r.share == r.sensitivity == 0 for r in features(off))
    assert all(
        r.violation_before == pytest.approx(r.violation_after, abs=1e-2)
        for r in features(off)
    )


def test_too_few_rows_to_hold_out_are_said():
    prior = FeaturePrior.similar([(0, 1)])
    X, y = np.eye(2), np.array([1.0, 2.0])
    model = MultiTaskRegressor(feature_prior=prior).fit(X, y, task=["a", "b"])
    audit = audit_prior(model, X, y, task=["a", "b"])
    assert audit.helped is None
    assert "cannot be held out" in audit.reason


def test_models_without_prior_are_told_the_way_out():
    X, y = np.eye(3), np.arange(3.0)
    with pytest.raises(
        ValueError, match=r"feature_prior that relates.*from_correlation"
    ):
        audit_prior(MultiTaskRegressor().fit(X, y))
    empty = MultiTaskRegressor(feature_prior=FeaturePrior.similar([])).fit(X, y)
    with pytest.raises(ValueError, match="feature_prior"):
        audit_prior(empty)
    with pytest.raises(TypeError, match="model must be a MultiTaskRegressor"):
        audit_prior("model")


def test_models_without_statistics_need_rows(tmp_path):
    planted = plant_relations(9)
    save(fitted(planted), tmp_path / "model")
    loaded = load(tmp_path / "model")
    with pytest.raises(ValueError, match="X, y and task must be given"):
        audit_prior(loaded)
    audit = audit_prior(loaded, planted.X, planted.y, task=planted.task, n_repeats=1)
    assert audit.relations[0].relation == planted.wrong


def test_rows_of_other_tasks_are_refused():
    planted = plant_relations(10)
    with pytest.raises(ValueError, match="tasks differ in"):
        audit_prior(fitted(planted), planted.X, planted.y, task=planted.task + 1)


def test_constant_columns_and_doubled_relations():
    planted = plant_relations(11)
    X = planted.X.copy()
    X[:, [0, 1]] = 3.0
    twice = FeaturePrior.similar([(0, 1), (2, 3), (2, 3), (0, 2)])
    model = MultiTaskRegressor(feature_prior=twice).fit(X, planted.y, task=planted.task)
    rows = {r.relation: r for r in features(audit_prior(model))}
    assert rows["x0 ~ x1"].verdict == "cannot be judged"
    assert rows["x0 ~ x2"].verdict == "cannot be judged"
    assert rows["x0 ~ x1"].violation_after == 0
    same = [r for r in features(audit_prior(model)) if r.relation == "x2 ~ x3"]
    assert same[0] == same[1]


def test_fewer_rows_than_features():
    planted = plant_relations(12, m=2, d=40, n=10)
    model = fitted(planted)
    audit = audit_prior(model, planted.X, planted.y, task=planted.task, n_repeats=1)
    assert all(0 <= r.p_value <= 1 or np.isnan(r.p_value) for r in audit.relations)


def test_matrices_shared_rows_and_nuclear_norms():
    rng = np.random.default_rng(0)
    X, D = rng.standard_normal((30, 4)), np.array([[1.0, 2.0, -1.0, 0.0], [0, 0, 1, 1]])
    Y = X @ rng.standard_normal((4, 3)) + rng.standard_normal((30, 3))
    Y[0, 0] = np.nan
    model = MultiTaskRegressor(feature_prior=D, penalty="nuclear", fit_intercept="tied")
    audit = audit_prior(model.fit(X, Y), X, Y, n_repeats=1)
    rows = {r.relation: r for r in features(audit)}
    assert rows["x0 + 2 x1 − x2 ~ 0"].sign == "combination"
    assert rows["x2 ~ −x3"].sign == "opposite"


def test_a_perfect_fit_is_no_trouble():
    X = np.random.default_rng(0).standard_normal((20, 3))
    model = MultiTaskRegressor(0.0, feature_prior=FeaturePrior.similar([(0, 1)]))
    audit = audit_prior(model.fit(X, np.ones(20)), X, np.ones(20))
    assert audit.helped.verdict == "no difference"
    assert audit.relations[0].verdict != "disagrees"


def test_frames_keep_their_library_and_names():
    polars = pytest.importorskip("polars")
    planted = plant_relations(13, d=6)
    frame = polars.DataFrame(planted.X, schema=[*"abcde", "<é|f>"])
    prior = FeaturePrior.similar([("a", "<é|f>")])
    model = MultiTaskRegressor(feature_prior=prior).fit(
        frame, planted.y, task=planted.task
    )
    audit = audit_prior(model, frame, planted.y, task=planted.task, n_repeats=1)
    assert isinstance(audit.to_frame(), polars.DataFrame)
    assert audit.to_frame("pandas")["relation"][0] == "a ~ <é|f>"
    assert "&lt;é|f&gt;" in audit._repr_html_()


def test_json_is_plain_and_whole():
    planted = plant_relations(14)
    audit = audit_prior(
        fitted(planted), planted.X, planted.y, task=planted.task, n_repeats=1
    )
    plain = json.loads(audit.to_json())
    assert plain["relations"][0]["relation"] == audit.relations[0].relation
    assert plain["helped"]["with_prior"] == audit.helped.with_prior.tolist()
    assert audit.disagreeing[0].relation == planted.wrong


def test_both_fits_are_certified():
    planted = plant_relations(15)
    model = fitted(planted)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        audit = audit_prior(model)
    assert audit.dual_gap_with == model.dual_gap_
    assert 0 <= audit.dual_gap_without <= 1e-6 * np.sum(planted.y**2)


def test_it_is_public():
    assert priormtl.audit_prior is audit_prior


@pytest.mark.parametrize(
    ("coef", "violation"),
    [((1.0, 1.0), 0.0), ((1.0, -1.0), 1.0), ((1.0, 0.0), 0.5), ((0.0, 0.0), 0.0)],
)
def test_violations_lie_between_nothing_and_all(coef, violation):
    X = np.vstack([np.eye(2), -np.eye(2)])
    prior = FeaturePrior.similar([(0, 1)])
    model = MultiTaskRegressor(0.0, 0.0, feature_prior=prior).fit(X, X @ coef)
    (row,) = audit_prior(model).relations
    assert row.violation_after == pytest.approx(violation, abs=1e-6)


@pytest.mark.parametrize(("intercept", "used"), [(True, 4), (False, 0), ("tied", 0)])
def test_free_intercepts_use_up_degrees_of_freedom(monkeypatch, intercept, used):
    degrees = []

    def estimate(*arguments):
        degrees.append(arguments[-1])
        return estimate_coefficients(*arguments)

    monkeypatch.setattr(auditing, "estimate_coefficients", estimate)
    # As if rows of single tasks determined nothing.
    unknown = [StatementTest(np.nan, np.nan)] * 9
    monkeypatch.setattr(auditing, "relation_tests", lambda D, *_: unknown[: D.shape[0]])
    planted = plant_relations(0)
    audit_prior(fitted(planted, fit_intercept=intercept))
    assert degrees == [100 - used]


def test_very_many_features_are_judged_where_they_are_in_use(monkeypatch):
    planted = plant_relations(0)
    model = MultiTaskRegressor(20.0, feature_prior=planted.prior)
    model.fit(planted.X, planted.y, task=planted.task)
    monkeypatch.setattr(auditing, "MOST_FEATURES", 11)  # of 12, some out of use
    part = audit_prior(model).relations
    assert part[0].relation == planted.wrong
    assert part[0].verdict == "disagrees"
    monkeypatch.setattr(auditing, "MOST_FEATURES", 1)
    nothing = audit_prior(model).relations
    assert {r.verdict for r in nothing} == {"cannot be judged"}
    first = [r.violation_before for r in nothing if r.kind == "feature"]
    assert first == sorted(first, reverse=True)


def test_units_of_features_play_no_part_without_standardising_either():
    # Tests of relations are scale free: D P does not change if P and D change units.
    planted = plant_relations(4, d=6)
    D = np.zeros((2, 6))
    D[0, :2], D[1, 2:4] = (1.0, -1.0), (1.0, 2.0)

    def p_values(scale):
        model = MultiTaskRegressor(0.0, feature_prior=D * scale, task_prior=None)
        model.fit(planted.X * scale, planted.y, task=planted.task)
        found = audit_prior(model).relations
        return sorted((r.p_value, r.statistic) for r in found)

    expected = p_values(np.ones(6))
    for p, statistic in expected:
        assert 0 <= p <= 1
        assert statistic > 0
    assert np.array(p_values(10.0 ** np.arange(-2, 4))) == pytest.approx(
        np.array(expected), rel=1e-5
    )


def test_where_p_values_vanish_the_larger_statistic_comes_first():
    X = np.random.default_rng(0).standard_normal((400, 4))
    y = X @ [1.0, -1.0, 9.0, -9.0]
    y += 1e-2 * np.random.default_rng(1).standard_normal(400)
    prior = FeaturePrior.similar([(0, 1), (2, 3)])
    model = MultiTaskRegressor(0.0, 1e-3, feature_prior=prior).fit(X, y)
    first, second = audit_prior(model).relations
    assert first.p_value == second.p_value == 0
    assert first.relation == "x2 ~ x3"
    assert first.statistic > second.statistic


@pytest.mark.parametrize(
    ("row", "words", "sign", "weight"),
    [
        ([1.0, -1.0, 0.0], "a ~ b", "similar", 1.0),
        ([0.0, 2.0, 2.0], "b ~ −c", "opposite", 4.0),
        ([1.0, 2.0, -1.0], "a + 2 b − c ~ 0", "combination", 1.0),
        ([-1.0, 0.0, 0.0], "− a ~ 0", "combination", 1.0),
        ([0.0, 0.0, 0.0], "0 ~ 0", "combination", 1.0),
        ([1e-9, -1e-9, 0.0], "a ~ b", "similar", 1e-18),
    ],
)
def test_rows_of_a_matrix_in_words(row, words, sign, weight):
    (found,) = describe_rows(csr_array([row]), ["a", "b", "c"])
    assert (found.relation, found.sign) == (words, sign)
    assert found.weight == pytest.approx(weight)


def test_weights_are_those_that_were_given():
    root = np.sqrt(0.3)
    (found,) = describe_rows(csr_array([[root, -root]]), ["a", "b"])
    assert found.weight == 0.3


def test_long_combinations_are_cut():
    (found,) = describe_rows(csr_array(np.ones((1, 9))), [*"abcdefghi"])
    assert found.relation == "a + b + c + d + e + f + … ~ 0"
