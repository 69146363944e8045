"""Mixed models in lme4's form: the likelihood of y's covariance, and its maximum."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from priormtl.data import condense, from_labels
from priormtl.losses import TiedIntercepts
from priormtl.priors import TaskPrior, laplacian
from priormtl.reml import COMMON, Families, arrow, estimate_ties, scores
from priormtl.reml.mixed import Factor, Mixed, Rows, estimate_mixed, score_varying
from priormtl.reml.restricted import Data, Likelihood

NO_SLOPES = Families(np.zeros(0, dtype=int), np.zeros(0, dtype=int))


KINDS = ("crossed", "many items", "nested", "nested twice")


def drawn(seed=0, n=120, m=12, kind="nested"):
    """Rows whose first slope varies, with crossed items and classes nested in tasks."""
    rng = np.random.default_rng(seed)
    items = 50 if kind == "many items" else 7
    X, task = rng.normal(size=(n, 4)), rng.integers(0, m, n)
    X[:, 1] += 2.0
    item, part = rng.integers(-1, items, n), task * 3 + rng.integers(0, 3, n)
    item_effects = np.append(rng.normal(size=items), 0.0)
    slope = 1.0 + 0.8 * rng.normal(size=m)
    y = 3.0 + slope[task] * X[:, 0] + 0.5 * X[:, 2] + rng.normal(size=m)[task]
    y += item_effects[item] + 0.5 * rng.normal(size=n)
    crossed = {"item": Factor(item, items)}
    if kind.startswith("nested"):
        y += 0.7 * rng.normal(size=3 * m)[part]
        crossed["class"] = Factor(part, 3 * m)
    if kind == "nested twice":
        y += 2.0 * rng.normal(size=4)[task % 4]
        crossed["region"] = Factor(task % 4, 4)
    weight = rng.uniform(0.5, 2.0, n)
    weight[3] = 0.0
    families = Families(np.arange(4), np.array([-1, -1, 0, 0]))
    return Rows(X, y, task, m, weight, crossed), families


def columns(rows):
    """Common columns, and the columns of each kind of effects, of rows with weight."""
    used = rows.weight > 0
    X = np.column_stack([np.ones(len(rows.y)), rows.X])[used]
    member = np.eye(rows.n_tasks)[rows.task[used]]
    levels = {
        name: (levels[used, None] == np.arange(size)).astype(float)
        for name, (levels, size) in rows.crossed.items()
    }
    return X, member, levels, rows.y[used], rows.weight[used]


def dense(rows, estimate):
    """−2 log L, V⁻¹, P and errors of free common effects, from the covariance of y."""
    X, member, levels, y, weight = columns(rows)
    V = np.diag(estimate.noise_variance / weight)
    for column, variance in zip(estimate.varying, estimate.task_variance, strict=True):
        Z = X[:, [column]] * member
        V += variance * Z @ Z.T
    for name, sd in estimate.crossed_sd.items():
        V += sd**2 * levels[name] @ levels[name].T
    free = np.isinf(estimate.common_variance)
    shrunken = X[:, ~free]
    V += (shrunken * estimate.common_variance[~free]) @ shrunken.T
    F, inverse = X[:, free], np.linalg.inv(V)
    S = F.T @ inverse @ F
    P = inverse - inverse @ F @ np.linalg.solve(S, F.T @ inverse)
    logs = np.linalg.slogdet(V)[1] + np.linalg.slogdet(S)[1]
    value = logs + y @ P @ y + (len(y) - F.shape[1]) * np.log(2 * np.pi)
    return value, inverse, P, np.linalg.inv(S)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_likelihood_effects_and_errors_are_those_of_the_covariance(seed, kind):
    rows, families = drawn(seed, kind=kind)
    estimate = estimate_mixed(rows, families)
    value, inverse, P, errors = dense(rows, estimate)
    X, member, levels, y, _ = columns(rows)
    assert estimate.criterion == pytest.approx(value, abs=1e-8)
    free = np.isinf(estimate.common_variance)
    effects = errors @ X[:, free].T @ inverse @ y
    np.testing.assert_allclose(estimate.common[free], effects, rtol=1e-9)
    covariance = estimate.errors.common
    np.testing.assert_allclose(covariance[np.ix_(free, free)], errors, atol=1e-10)
    pulls = {name: Z.T @ P @ y for name, Z in levels.items()}
    for name, sd in estimate.crossed_sd.items():
        np.testing.assert_allclose(
            estimate.crossed_effects[name], sd**2 * pulls[name], atol=1e-9
        )
        reduction = np.einsum("ij,ik,kj->j", levels[name], P, levels[name])
        np.testing.assert_allclose(
            estimate.errors.levels[name], sd**2 - sd**4 * reduction, atol=1e-9
        )
    scaled = np.stack([X[:, c, None] * member for c in estimate.varying])
    tau = estimate.task_variance
    np.testing.assert_allclose(
        estimate.task_effects, (tau[:, None] * (scaled.swapaxes(1, 2) @ P @ y)).T
    )
    for i in (0, 5):
        Z = scaled[:, :, i].T
        expected = np.diag(tau) - tau[:, None] * (Z.T @ P @ Z) * tau
        np.testing.assert_allclose(estimate.errors.task[i], expected, atol=1e-9)
        expected = -tau[:, None] * (Z.T @ inverse @ X[:, free] @ errors)
        cross = estimate.errors.task_common[i][:, free]
        np.testing.assert_allclose(cross, expected, atol=1e-9)


def test_no_variances_are_better():
    rows, families = drawn(1)
    estimate = estimate_mixed(rows, families)

    def value(logs):
        names = list(estimate.crossed_sd)
        variance = np.exp(logs)
        shrunken = ~np.isinf(estimate.common_variance)
        other = replace(
            estimate,
            task_variance=variance[:2],
            crossed_sd=dict(zip(names, np.sqrt(variance[2:4]), strict=True)),
            common_variance=np.where(shrunken, variance[4], np.inf),
            noise_variance=variance[5],
        )
        return dense(rows, other)[0]

    assert list(estimate.varying) == [0, 1]
    here = np.log(
        [
            *estimate.task_variance,
            *np.square(list(estimate.crossed_sd.values())),
            estimate.common_variance[3],
            estimate.noise_variance,
        ]
    )
    best = minimize(value, here, method="BFGS", options={"gtol": 1e-6})
    assert estimate.criterion == pytest.approx(best.fun, abs=3e-4)
    np.testing.assert_allclose(here, best.x, atol=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_are_those_of_the_value(kind):
    rows, families = drawn(2, kind=kind)
    point = estimate_mixed(rows, families).point
    theta = point.theta * np.exp(np.random.default_rng(0).normal(size=len(point.theta)))
    point = point.moved(theta)
    for place, family in enumerate(point.active):
        up, down = (np.array(theta), np.array(theta))
        up[family] *= np.exp(1e-4)
        down[family] *= np.exp(-1e-4)
        slope = (point.moved(up).value - point.moved(down).value) / 2e-4
        assert point.gradient[place] == pytest.approx(slope, abs=1e-5)
    assert np.linalg.eigvalsh(point.information).min() > -1e-8


def test_scores_are_those_of_the_covariance():
    rows, families = drawn(0, n=400, m=40)
    data = Data.of(rows, families, True, True, None)
    first = data.first_variances()
    point = Likelihood.of(data, first).at(first)
    found = score_varying(point)
    _, _, P, _ = dense(rows, Mixed.at(point))
    X, member, _, y, _ = columns(rows)
    noise = point.noise_variance
    for place in range(4):
        Z = X[:, [1 + place]] * member
        pulls, inner = Z.T @ P @ y * np.sqrt(noise), noise * Z.T @ P @ Z
        slope = np.trace(inner) - pulls @ pulls
        # A fraction of what chance does to the score itself.
        deviation = np.sqrt(2.0 * np.sum(inner**2))
        assert found.slope[place] == pytest.approx(slope, abs=0.3 * deviation)
    assert found.gain.argmax() == 0


def test_scores_by_columns_are_those_by_tasks(monkeypatch):
    rows, families = drawn(1)
    task = np.where(np.arange(len(rows.y)) < 5, -1, rows.task)
    data = Data.of(rows._replace(task=task), families, True, True, None)
    theta = data.first_variances()
    theta[[0, -1]] = 0.0
    point = Likelihood.of(data, theta).at(theta)
    first = score_varying(point)
    monkeypatch.setattr(scores, "MANY_TASKS", 0)
    for a, b in zip(first, score_varying(point), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_estimates_do_not_depend_on_origin_weights_or_order():
    rows, families = drawn(3)
    first = estimate_mixed(rows, families)
    order = np.random.default_rng(0).permutation(len(rows.y))
    crossed = {name: Factor(f[order], size) for name, (f, size) in rows.crossed.items()}
    other = Rows(
        rows.X[order] + np.array([0.0, 1e6, 0.0, 0.0]),
        rows.y[order] + 1e8,
        rows.task[order],
        rows.n_tasks,
        7.0 * rows.weight[order],
        crossed,
    )
    families = Families(np.array([0, COMMON, 1, 2]), families.fixed)
    second = estimate_mixed(other, families)
    assert list(second.varying) == list(first.varying)
    np.testing.assert_allclose(second.common[1:], first.common[1:], atol=1e-6)
    np.testing.assert_allclose(second.task_effects, first.task_effects, atol=1e-5)
    assert second.noise_variance == pytest.approx(7.0 * first.noise_variance, rel=1e-5)
    assert second.crossed_sd == pytest.approx(first.crossed_sd, rel=1e-5)


def test_agrees_with_ties_to_the_mean():
    rng = np.random.default_rng(4)
    task = np.repeat(np.arange(10), 15)
    X, effects = rng.normal(size=(150, 3)), rng.normal(size=(10, 2))
    y = effects[task, 0] + (1.0 + effects[task, 1]) * X[:, 0] + rng.normal(size=150)
    families = Families(np.array([0, COMMON, COMMON]), np.array([-1, 0, 0]))
    estimate = estimate_mixed(Rows(X, y, task, 10), families)
    data = from_labels(X, y, task)
    L = laplacian(TaskPrior.mean(), data.tasks)
    ties = estimate_ties(condense(data), L, TiedIntercepts(L, 1.0), families=families)
    expected = ties.noise_variance / np.array([ties.intercept, ties.weights[0]])
    np.testing.assert_allclose(estimate.task_variance, expected, rtol=5e-3)
    assert estimate.noise_variance == pytest.approx(ties.noise_variance, rel=1e-3)
    coef = estimate.common[:2, None] + estimate.task_effects.T
    np.testing.assert_allclose(coef, ties.rows[:2], atol=1e-2)


def test_noise_has_no_variance_and_the_fit_is_least_squares():
    rng = np.random.default_rng(0)
    n, item = 400, np.arange(400) % 20
    X, task = rng.normal(size=(n, 2)), np.repeat(np.arange(40), 10)
    noise = rng.normal(size=n)
    for levels in (item, task):
        # The mean of each level is zero: less than noise would leave.
        noise -= (np.bincount(levels, noise) / np.bincount(levels))[levels]
    y = 1.0 + X @ [1.0, -1.0] + noise
    families = Families(np.array([COMMON, COMMON]), np.array([-1, -1]))
    rows = Rows(X, y, task, 40, None, {"i": Factor(item, 20)})
    estimate = estimate_mixed(rows, families)
    assert estimate.crossed_sd == {"i": 0.0}
    assert estimate.task_effects.shape == (40, 0)
    design = np.column_stack([np.ones(n), X])
    np.testing.assert_allclose(
        estimate.common, np.linalg.lstsq(design, y, rcond=None)[0], atol=1e-10
    )


def test_a_redundant_column_has_no_effect():
    rows, families = drawn(1)
    more = [rows.X, rows.X[:, 1], np.ones(len(rows.y))]
    wide = rows._replace(X=np.column_stack(more))
    deviations, fixed = families
    more = Families(np.append(deviations, [COMMON, COMMON]), np.append(fixed, [-1, -1]))
    first, second = estimate_mixed(rows, families), estimate_mixed(wide, more)
    assert second.criterion == pytest.approx(first.criterion, abs=1e-6)
    assert np.count_nonzero(second.common[[2, 5, 6]]) == 1


def test_the_largest_factor_is_eliminated_and_what_it_is_nested_in():
    rng = np.random.default_rng(0)
    n = 300
    student = rng.integers(0, 60, n)
    school, other = student // 10, rng.integers(0, 8, n)
    crossed = {"student": Factor(student, 60), "other": Factor(other, 8)}
    rows = Rows(np.zeros((n, 0)), rng.normal(size=n), school, 6, None, crossed)
    data = Data.of(rows, NO_SLOPES, True, True, None)
    arrow = Likelihood.of(data, data.first_variances()).arrow
    assert [link.term for link in arrow.links] == [1, 0]
    assert arrow.rest == (2,)


def test_an_earlier_estimate_saves_evaluations():
    rows, families = drawn(2)
    first = estimate_mixed(rows, families)
    again = estimate_mixed(rows, families, start=first.variances)
    assert again.n_evaluations < first.n_evaluations
    assert again.criterion == pytest.approx(first.criterion, abs=3e-4)


def test_effects_that_explain_all_rows_leave_some_noise():
    rng = np.random.default_rng(0)
    rows = Rows(np.zeros((30, 0)), rng.normal(size=30), np.arange(30), 30)
    estimate = estimate_mixed(rows, NO_SLOPES)
    assert np.isfinite(estimate.criterion)
    assert estimate.noise_variance > 0


def test_variances_that_data_do_not_see_are_zero():
    rng = np.random.default_rng(0)
    nothing = {"none": Factor(np.full(20, -1), 3)}
    rows = Rows(
        np.zeros((20, 0)), rng.normal(size=20), np.zeros(20, int), 1, None, nothing
    )
    estimate = estimate_mixed(rows, NO_SLOPES)
    assert estimate.crossed_sd == {"none": 0.0}
    assert estimate.task_effects.shape == (1, 0)
    assert estimate.noise_variance == pytest.approx(rows.y.var(ddof=1))
    same = estimate_mixed(rows._replace(y=np.zeros(20)), NO_SLOPES)
    assert same.noise_variance == pytest.approx(0.0, abs=1e-100)


def test_more_free_effects_than_rows_are_refused():
    rng = np.random.default_rng(0)
    rows = Rows(rng.normal(size=(10, 20)), rng.normal(size=10), np.arange(10) % 2, 2)
    with pytest.raises(ValueError, match="got 10 rows and 10 effects"):
        estimate_mixed(rows, Families(np.arange(20), np.full(20, -1)))


@pytest.mark.parametrize("items", [150, 500])  # levels, or tasks' two effects, are left
def test_probes_estimate_what_a_dense_factor_computes(monkeypatch, items):
    rng = np.random.default_rng(0)
    n, m = 4000, 200
    X, task, item = (
        rng.normal(size=(n, 2)),
        rng.integers(0, m, n),
        rng.integers(0, items, n),
    )
    small = rng.integers(0, 4, n)
    y = X[:, 0] + 0.7 * rng.normal(size=m)[task] + 0.4 * rng.normal(size=items)[item]
    y += 0.5 * rng.normal(size=m)[task] * X[:, 0] + rng.normal(size=n)
    crossed = {"item": Factor(item, items), "small": Factor(small, 4)}
    rows = Rows(X, y, task, m, None, crossed)
    families = Families(np.arange(2), np.array([-1, -1]))
    exact = estimate_mixed(rows, families)
    monkeypatch.setattr(arrow, "MOST_DENSE", 10)
    point = exact.point.moved(exact.point.theta)
    assert point.value == pytest.approx(exact.criterion, abs=3.0)
    np.testing.assert_allclose(point.used, exact.point.used, rtol=0.05, atol=0.3)
    same = Mixed.at(point)
    assert same.is_stochastic
    assert not exact.is_stochastic
    np.testing.assert_allclose(same.common, exact.common, atol=1e-7)
    np.testing.assert_allclose(same.task_effects, exact.task_effects, atol=1e-7)
    for name in crossed:
        effects, errors = same.crossed_effects[name], same.errors.levels[name]
        np.testing.assert_allclose(effects, exact.crossed_effects[name], atol=1e-7)
        np.testing.assert_allclose(errors, exact.errors.levels[name], rtol=0.05)
    for name in ("common", "task", "task_common"):
        a, b = getattr(same.errors, name), getattr(exact.errors, name)
        np.testing.assert_allclose(a, b, atol=0.02 * np.abs(b).max())
    other = estimate_mixed(rows, families)
    assert list(other.varying) == list(exact.varying)
    assert other.crossed_sd["item"] == pytest.approx(exact.crossed_sd["item"], rel=0.02)
    np.testing.assert_allclose(other.task_variance, exact.task_variance, rtol=0.02)
