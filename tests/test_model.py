"""Model: checked once, frozen, posed on any data in the same way; and its solver."""

from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from instances import PAIRS, random_coef, random_tasks, with_signs
from priormtl.data import centre_samples, condense, from_labels, summarize_tasks
from priormtl.model import Model, Solver
from priormtl.priors import FeaturePrior, TaskPrior
from priormtl.solvers import StopReason

RELATED = {"feature_prior": PAIRS, "task_prior": "mean"}
MODELS = {
    "plain": Model(),
    "related": Model(2.0, 3.0, 0.5, **RELATED, fit_intercept=False),
    "tied": Model(**RELATED, fit_intercept="tied", standardize=True),
    "adaptive": Model(**RELATED, ties="adaptive", fit_intercept="tied"),
    "nuclear": Model(penalty="nuclear", task_prior="chain", standardize=True),
    "logistic": Model(0.1, loss="logistic", **RELATED, standardize=True),
}
LAYOUTS = ("stacked", "weighted", "shared", "gaps", "sparse")


def data_of(name, layout="stacked"):
    data = random_tasks(layout, n=12)
    return with_signs(data) if name == "logistic" else data


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"lam": -1.0}, "lam must be a finite number, at least 0: got -1.0"),
        ({"theta": np.nan}, "theta must be a finite number"),
        ({"epsilon": np.inf}, "epsilon must be a finite number"),
        ({"intercept_strength": "1"}, "intercept_strength must be a finite number"),
        ({"loss": "hinge"}, "loss must be one of 'squared', 'logistic', 'poisson'"),
        ({"penalty": "l1"}, "penalty must be one of 'l21', 'nuclear'"),
        ({"fit_intercept": 1}, 'fit_intercept must be True, False or "tied"'),
        ({"fit_intercept": "tied"}, "task_prior must not be None with fit_intercept="),
        ({"task_prior": "chian"}, "Did you mean 'chain'"),
        (
            {"penalty": "nuclear", "feature_weights": [1.0]},
            'feature_weights must be None with penalty="nuclear"',
        ),
    ],
)
def test_models_are_checked_before_any_data(setting, words):
    with pytest.raises(ValueError, match=words):
        Model(**setting)
    with pytest.raises(ValueError, match=words):
        replace(Model(), **setting)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"feature_weights": np.ones(3)}, "feature_weights must have one weight per"),
        ({"feature_weights": [1.0, 0.0, 1, 1]}, "above 0: got 0.0 for the feature at"),
        ({"ties": np.ones(5)}, "ties must have one weight per feature"),
        ({"ties": [1, 1, -1, 1]}, "at least 0: got -1.0 for the feature at"),
        ({"ties": "adaptiv"}, "Did you mean 'adaptive'"),
        ({"task_prior": TaskPrior.chain(order=["u", "v"])}, "u"),
        ({"feature_prior": FeaturePrior.similar([(0, 9)])}, "9"),
    ],
)
def test_what_must_fit_the_data_is_checked_on_them(setting, words):
    model = Model(**setting)
    with pytest.raises(ValueError, match=words):
        model.pose(random_tasks("stacked"))


@pytest.mark.parametrize("field", [field.name for field in fields(Model)])
def test_models_are_frozen(field):
    with pytest.raises(FrozenInstanceError, match=field):
        setattr(Model(), field, 1.0)


def test_words_become_priors_and_numbers_floats():
    model = Model(1, np.float32(2), task_prior="chain", fit_intercept=np.True_)
    assert type(model.lam) is type(model.theta) is float
    assert isinstance(model.task_prior, TaskPrior)
    assert model.fit_intercept is True


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", MODELS)
def test_posing_twice_gives_the_same_bits(name, layout):
    data = data_of(name, layout)
    one, other = (MODELS[name].pose(data) for _ in range(2))
    P = random_coef(data.shape)
    a, b = (posed.problem.at(P) for posed in (one, other))
    assert one.problem.objective(a) == other.problem.objective(b)
    assert np.array_equal(a.fit.gradient, b.fit.gradient)
    assert np.array_equal(one.scale, other.scale)
    assert np.array_equal(one.tie_weights, other.tie_weights)
    assert one.intercept_strength == other.intercept_strength


@pytest.mark.parametrize("name", MODELS)
def test_strengths_at_other_values_are_those_of_another_model(name):
    data = data_of(name)
    strengths = {"lam": 0.3, "theta": 7.0, "epsilon": 0.0}
    posed = MODELS[name].pose(data).at(**strengths)
    other = replace(MODELS[name], **strengths).pose(data)
    P = random_coef(data.shape)
    for one in (posed, other):
        assert (one.problem.lam, one.problem.prior.theta) == (0.3, 7.0)
        assert one.problem.prior.epsilon == 0.0
    a, b = (one.problem.objective(one.problem.at(P)) for one in (posed, other))
    assert a == b
    assert np.array_equal(posed.tie_weights, other.tie_weights)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "logistic"])
def test_rows_statistics_and_sparse_rows_pose_the_same(name):
    data = data_of(name)
    P = random_coef(data.shape)
    forms = [data, summarize_tasks(data), data.with_matrix(csr_array(data.X))]
    posed = [MODELS[name].pose(form) for form in forms]
    values = [one.problem.objective(one.problem.at(P)) for one in posed]
    np.testing.assert_allclose(values, values[0], rtol=1e-9)
    for one in posed[1:]:
        np.testing.assert_allclose(one.scale, posed[0].scale)
        np.testing.assert_allclose(one.tie_weights, posed[0].tie_weights, rtol=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_the_loss_of_the_same_data_is_that_of_the_problem(name):
    data = data_of(name)
    posed = MODELS[name].pose(data)
    again = posed.bind(data).evaluate(random_coef(data.shape))
    known = posed.problem.fit.evaluate(random_coef(data.shape))
    assert again.value == known.value
    assert np.array_equal(again.gradient, known.gradient)


@pytest.mark.parametrize("name", ["tied", "nuclear", "logistic"])
def test_units_of_features_come_back(name):
    """Scores of rows do not depend on the units in which features are given."""
    data = data_of(name)
    units = np.array([1e-3, 1.0, 7.0, 1e4])
    solver = Solver(tol=1e-10)
    found = []
    for one in (data, data.with_matrix(data.X * units)):
        posed = MODELS[name].pose(one)
        solution = solver.solve(posed.problem)
        coef = (solution.coef / posed.scale[:, np.newaxis]).T
        found.append((coef * (units if one is not data else 1.0), solution.intercept))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-4, atol=1e-6)


def test_samples_take_the_place_of_moments_where_there_are_any():
    data = random_tasks("stacked", n=12)
    posed = MODELS["tied"].pose(data)
    closer = posed.on_samples(data)
    P = random_coef(data.shape)
    a, b = (one.problem.objective(one.problem.at(P)) for one in (posed, closer))
    assert a == pytest.approx(b, rel=1e-12)
    assert type(closer.problem.fit.moments) is type(centre_samples(data))
    assert posed.on_samples(condense(data)) is None
    assert closer.on_samples(data) is None
    # Sparse samples become dense where they are few.
    sparse = posed.on_samples(data.with_matrix(csr_array(data.X)))
    assert sparse.problem.objective(sparse.problem.at(P)) == pytest.approx(b, rel=1e-12)


# The solver.


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"method": "newtn"}, "solver must be one of 'auto'"),
        ({"tol": 0.0}, "tol must be a positive number: got 0.0"),
        ({"max_iter": 0}, "max_iter must be a positive whole number: got 0"),
    ],
)
def test_solvers_are_checked_at_once(setting, words):
    with pytest.raises(ValueError, match=words):
        Solver(**setting)


@pytest.mark.parametrize("name", MODELS)
def test_every_step_of_a_path_is_a_solution(name):
    posed = MODELS[name].pose(data_of(name))
    solver = Solver(tol=1e-10)
    lams = posed.problem.lam_max * np.array([1.0, 0.3, 0.01])
    for lam, one in zip(lams, solver.path(posed.problem, lams), strict=True):
        problem = posed.problem.with_strengths(lam=float(lam))
        alone = solver.solve(problem)
        assert solver.accepts(problem, one.certificate)
        room = 1e-9 * problem.null_objective
        primal = alone.certificate.primal
        assert one.certificate.primal == pytest.approx(primal, abs=room)


def test_rules_of_one_run_are_not_those_of_the_next():
    problem = MODELS["related"].pose(random_tasks("stacked")).problem
    solver = Solver("ista", tol=1e-9, max_iter=3)
    one, other = solver.solve(problem), solver.solve(problem)
    assert one.reason is other.reason is StopReason.MAX_ITER
    assert one.n_iter == other.n_iter == 3
    assert np.array_equal(one.coef, other.coef)
    assert not solver.accepts(problem, one.certificate)


def test_singular_moments_are_solved_on_samples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) + 1e3
    y = X[:, 1] - X[:, 2] + rng.normal(size=60)
    data = from_labels(np.column_stack([X, X[:, 0]]), y, np.arange(60) % 3)
    solver = Solver()
    posed = Model(0.0, 0.0, 1.0, task_prior="mean").pose(data)
    posed, found = posed.fit(solver, data)
    assert type(posed.problem.fit.moments) is type(centre_samples(data))
    assert solver.accepts(posed.problem, found.certificate)
    assert np.abs(found.coef).max() < 10.0


def test_a_gap_that_is_left_is_not_called_rounding():
    """Columns that differ by 1e-9: no coefficients of bounded size close the gap."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    twin = X[:, 0] + 1e-9 * rng.normal(size=60)
    y = X[:, 1] - X[:, 2] + rng.normal(size=60)
    data = from_labels(np.column_stack([X, twin]), y, np.arange(60) % 3)
    solver = Solver()
    posed = Model(0.0, 0.0, 1.0, task_prior="mean").pose(data)
    posed, found = posed.fit(solver, data)
    if not solver.accepts(posed.problem, found.certificate):
        assert found.reason is not StopReason.ROUNDING
