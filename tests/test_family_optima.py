"""Fits of every family against cvxpy (Clarabel), through the public face.

The reference is written from the documentation alone: losses as `objective_` sums them,
the penalty, every statement and tie term by term.
"""

from dataclasses import dataclass, field
from warnings import catch_warnings, simplefilter

import cvxpy as cp
import numpy as np
import pytest
from scipy.sparse import csr_array

from priormtl import FeaturePrior, MultiTaskClassifier, MultiTaskRegressor

PER_BATCH = 20
# 60 problems in the quick tests, the other 340 in the slow ones.
BATCHES = [pytest.param(k, marks=pytest.mark.slow if k >= 3 else ()) for k in range(20)]
FAMILIES = ("poisson", "gamma", "negative_binomial", "logistic", "multinomial")


@dataclass
class Case:
    """One random problem in plain numbers, and the settings that describe it."""

    X: np.ndarray
    y: np.ndarray
    task: np.ndarray
    weight: np.ndarray | None
    offset: np.ndarray | None
    loss: str
    sparse: bool
    settings: dict
    pairs: list = field(default_factory=list)
    near: list = field(default_factory=list)
    signs: dict = field(default_factory=dict)
    common: list = field(default_factory=list)


def draw(seed):
    rng = np.random.default_rng(seed)
    m, d, n = (int(rng.integers(*ends)) for ends in ((1, 5), (1, 5), (4, 15)))
    loss = FAMILIES[seed % len(FAMILIES)]
    X = rng.normal(size=(m * n, d)) + rng.normal(size=d) * (rng.random() < 0.5)
    sparse = rng.random() < 0.3
    if sparse:
        X = np.where(rng.random(X.shape) < 0.5, X, 0.0)
    task = np.repeat(np.arange(m), n)
    P = 0.5 * rng.normal(size=(d, 1)) + 0.2 * rng.normal(size=(d, m))
    eta = np.sum(X * P.T[task], axis=1) + 0.3 * rng.normal(size=m)[task]
    offset = None
    if loss not in ("logistic", "multinomial") and rng.random() < 0.4:
        offset = rng.normal(size=m * n)
        eta = eta + offset
    mean = np.exp(np.clip(eta, -4.0, 4.0)) * 10.0 ** rng.integers(-1, 3)
    y = {
        "poisson": lambda: rng.poisson(mean),
        "gamma": lambda: rng.gamma(2.0, mean / 2.0) + 1e-3,
        "negative_binomial": lambda: rng.poisson(mean * rng.gamma(2.0, 0.5, m * n)),
        "logistic": lambda: (eta + rng.normal(size=m * n) > 0).astype(int),
        "multinomial": lambda: np.digitize(eta + rng.normal(size=m * n), [-0.5, 0.7]),
    }[loss]()
    # Free intercepts are finite.
    y[::n], y[1::n] = 1, {"logistic": 0, "multinomial": 0}.get(loss, 2)
    if loss == "multinomial":
        y[2::n] = 2
    weight = rng.uniform(0.3, 3.0, m * n) if rng.random() < 0.4 else None
    intercept = (True, "tied", False)[rng.integers(3)]
    settings = {
        "lam": float(rng.choice([0.1, 0.5, 2.0, 10.0])),
        "theta": float(rng.choice([0.3, 2.0])),
        "epsilon": float(rng.choice([0.1, 1.0, 5.0])),
        "task_prior": str(rng.choice(["chain", "mean"])),
        "fit_intercept": intercept,
        "intercept_strength": float(rng.choice([0.5, 3.0])),
        "tol": 1e-8,
    }
    if loss == "negative_binomial":
        settings["dispersion"] = float(rng.choice([0.1, 0.5, 3.0]))
    case = Case(X, y, task, weight, offset, loss, sparse, settings)
    chance = lambda share: rng.random() < share  # noqa: E731
    if d > 1 and chance(0.5):
        a, b = rng.choice(d, 2, replace=False)
        case.pairs.append((int(a), int(b), int(rng.choice([-1, 1]))))
    if chance(0.4):
        case.signs[int(rng.integers(d))] = int(rng.choice([-1, 1]))
    if chance(0.4):
        j, value = int(rng.integers(d)), float(rng.normal())
        # Known values must not contradict a sign.
        case.near.append((j, abs(value) * case.signs.get(j, np.sign(value))))
    if chance(0.4):
        case.common.append(int(rng.integers(d)))
    return case


def fitted(case):
    parts = [
        (FeaturePrior.similar if sign > 0 else FeaturePrior.opposite)([(a, b)])
        for a, b, sign in case.pairs
    ]
    parts += [FeaturePrior.near({j: value}) for j, value in case.near]
    for j, sign in case.signs.items():
        bound = FeaturePrior.nonnegative if sign > 0 else FeaturePrior.nonpositive
        parts.append(bound([j]))
    parts += [FeaturePrior.common([j]) for j in case.common]
    prior = sum(parts[1:], parts[0]) if parts else None
    settings = case.settings | {"feature_prior": prior}
    X = case.X
    if case.loss in ("logistic", "multinomial"):
        model = MultiTaskClassifier(**settings)
    else:
        model = MultiTaskRegressor(loss=case.loss, **settings)
        if case.offset is not None:
            X = np.column_stack([X, case.offset])
            model.set_params(offset=X.shape[1] - 1)
    X = csr_array(X) if case.sparse else X
    return model.fit(X, case.y, task=case.task, sample_weight=case.weight)


def losses(case, eta):
    """Sum over the rows of weight × f, as an expression."""
    y, given = case.y.astype(float), case.settings
    w = np.ones(len(y)) if case.weight is None else case.weight
    if case.loss == "poisson":
        return w @ (cp.exp(eta) - cp.multiply(y, eta))
    if case.loss == "gamma":
        return w @ (eta + cp.multiply(y, cp.exp(-eta)))
    if case.loss == "logistic":
        return w @ cp.logistic(cp.multiply(1.0 - 2.0 * y, eta))
    r = 1.0 / given["dispersion"]
    both = cp.multiply(y + r, cp.logistic(eta - np.log(r)) + np.log(r))
    return w @ (both - cp.multiply(y, eta))


def ties(case, rows):
    """½ tr(R L Rᵀ) of rows (k, m), for a chain or ties to the mean."""
    m = rows.shape[1]
    if m == 1:
        return 0.0
    if case.settings["task_prior"] == "chain":
        return 0.5 * cp.sum_squares(rows[:, 1:] - rows[:, :-1])
    return 0.5 * cp.sum_squares(rows - rows @ np.full((m, m), 1.0 / m))


def optimum_of_classes(case, K=3):
    """The same with coefficients and intercepts of each class."""
    d, m, given = case.X.shape[1], int(case.task.max()) + 1, case.settings
    Ps = [cp.Variable((d, m)) for _ in range(K)]
    bs = [cp.Variable((1, m)) for _ in range(K)]
    etas = [
        cp.sum(cp.multiply(case.X, P.T[case.task]), axis=1) + b[0, case.task]
        for P, b in zip(Ps, bs, strict=True)
    ]
    w = np.ones(len(case.y)) if case.weight is None else case.weight
    eta = cp.vstack(etas)
    own = sum(cp.multiply(case.y == k, etas[k]) for k in range(K))
    terms = [w @ (cp.log_sum_exp(eta, axis=0) - own)]
    terms += [
        given["lam"] * cp.norm(cp.hstack([P[j] for P in Ps]), 2) for j in range(d)
    ]
    limits = []
    for P, b in zip(Ps, bs, strict=True):
        own, more = prior_terms(case, P, b)
        terms, limits = terms + own, limits + more
    return solved(terms, limits)


def optimum(case):
    if case.loss == "multinomial":
        return optimum_of_classes(case)
    d, m = case.X.shape[1], int(case.task.max()) + 1
    P, b = cp.Variable((d, m)), cp.Variable((1, m))
    eta = cp.sum(cp.multiply(case.X, P.T[case.task]), axis=1) + b[0, case.task]
    if case.offset is not None:
        eta = eta + case.offset
    given = case.settings
    terms = [losses(case, eta)]
    terms += [given["lam"] * cp.norm(P[j], 2) for j in range(d)]
    own, limits = prior_terms(case, P, b)
    return solved(terms + own, limits)


def prior_terms(case, P, b):
    """Statements and ties of coefficients and intercepts, and constraints."""
    given = case.settings
    terms = [given["epsilon"] * ties(case, P)]
    for j, k, sign in case.pairs:
        terms.append(0.5 * given["theta"] * cp.sum_squares(P[j] - sign * P[k]))
    for j, value in case.near:
        terms.append(0.5 * given["theta"] * cp.sum_squares(P[j] - value))
    limits = [sign * P[j] >= 0 for j, sign in case.signs.items()]
    limits += [P[j] == P[j, 0] for j in case.common]
    if given["fit_intercept"] is False:
        limits.append(b == 0)
    if given["fit_intercept"] == "tied":
        terms.append(given["intercept_strength"] * ties(case, b))
    return terms, limits


def solved(terms, limits):
    problem = cp.Problem(cp.Minimize(sum(terms)), limits)
    with catch_warnings():
        simplefilter("ignore")  # it says so where it is only nearly as accurate
        problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("batch", BATCHES)
def test_fits_reach_the_optimum_of_an_independent_solver(batch):
    for seed in range(PER_BATCH * batch, PER_BATCH * (batch + 1)):
        case = draw(seed)
        model, best = fitted(case), optimum(case)
        unit = abs(best) + len(case.y)
        # Their optimum is off, too: ours may be lower by what it misses.
        assert abs(model.objective_ - best) <= 1e-6 * unit, (seed, case.loss)
        assert model.objective_ - model.dual_gap_ <= best + 1e-7 * unit, seed
        for j, sign in case.signs.items():
            assert np.all(sign * model.coef_[..., j] >= 0), seed
        for j in case.common:
            spread = np.ptp(model.coef_[..., j], axis=0)
            assert np.all(spread == 0), seed
