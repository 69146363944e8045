"""Standard errors of more than two classes, beside Hessians by finite differences."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    load,
    save,
    tabular_model,
)

M, K, D = 4, 3, 2


def draw(seed=0, n=300):
    rng = np.random.default_rng(seed)
    X, task = rng.normal([0.5, 2.0], size=(n, D)), rng.integers(M, size=n)
    effects = np.array([[1.0, 0.0, -1.0], [0.0, 0.5, -0.5]])
    eta = (X - [0.5, 2.0]) @ effects + rng.normal(0, 0.3, size=(M, K))[task]
    y = np.argmax(eta + rng.gumbel(size=eta.shape), axis=1)
    return X, y, task, rng.integers(1, 4, size=n).astype(float)


def hessians(model, X, y, task, weight):
    """Of the loss and of the objective, in (intercept, coefficients) of all classes.

    Unknowns are (task, class, intercept and features). The loss by finite differences
    of its gradient; the row penalty by its majoriser.
    """
    Z = np.column_stack([np.ones(len(X)), X])
    onehot = np.eye(K)[y]

    def slope(theta):
        theta = theta.reshape(M, K, D + 1)
        rest = softmax(np.einsum("nd,nkd->nk", Z, theta[task]), axis=1) - onehot
        found = np.zeros(theta.shape)
        np.add.at(found, task, (weight[:, None] * rest)[:, :, None] * Z[:, None, :])
        return found.ravel()

    start = np.concatenate([model.intercept_[..., None], model.coef_], axis=2).ravel()
    steps = 1e-5 * np.eye(len(start))
    loss = np.array([(slope(start + h) - slope(start - h)) / 2e-5 for h in steps])
    # Ties to the mean of all tasks, relations, and the penalty.
    centred = np.eye(M) - 1.0 / M
    tied = model.fit_intercept == "tied"
    ties = model.epsilon * np.ones(D + 1)
    ties[0] = model.intercept_strength if tied else 0.0
    inner = np.zeros((D + 1, D + 1))
    norms = np.linalg.norm(model.coef_.reshape(-1, D), axis=0)
    inner[1:, 1:] = np.diag(model.lam / norms)
    if model.feature_prior is not None:
        inner[1:, 1:] += model.theta * np.array([[1.0, -1.0], [-1.0, 1.0]])
    rest = np.kron(centred, np.kron(np.eye(K), np.diag(ties)))
    rest = rest + np.kron(np.eye(M * K), inner)
    whole = 0.5 * (loss + loss.T) + rest
    if model.fit_intercept is False:
        kept = np.arange(len(start)) % (D + 1) > 0
        return loss[np.ix_(kept, kept)], whole[np.ix_(kept, kept)]
    return loss, whole


def pseudo_inverse(H):
    """On what is apart from the means over classes, of which the data know nothing."""
    size = len(H) // (M * K)
    apart = np.kron(np.eye(M), np.kron(np.eye(K) - 1.0 / K, np.eye(size)))
    return np.linalg.pinv(apart @ H @ apart, rcond=1e-10, hermitian=True)


def sizes(covariance):
    """Standard errors of coefficients (m K, d), and of means over tasks (K, d)."""
    size = len(covariance) // (M * K)
    table = covariance.reshape(M, K, size, M, K, size)
    own = np.sqrt(covariance.diagonal()).reshape(M * K, size)[:, -D:]
    mean = np.einsum("ikdjld->kld", table).diagonal(axis1=0, axis2=1) / M**2
    return own, mean.T[:, -D:]


@pytest.mark.parametrize("intercept", [True, False, "tied"])
@pytest.mark.parametrize("related", [False, True])
@pytest.mark.filterwarnings("ignore:fit_intercept")
def test_errors_without_penalty_are_those_of_the_inverse_hessian(intercept, related):
    X, y, task, weight = draw()
    prior = FeaturePrior.similar([(0, 1)]) if related else None
    given = {"task_prior": "mean", "epsilon": 5.0, "theta": 3.0, "tol": 1e-12}
    model = MultiTaskClassifier(0.0, fit_intercept=intercept, **given)
    model.set_params(feature_prior=prior)
    model.fit(X, y, task=task, sample_weight=weight)
    summary = model.summary(0.95)
    _, H = hessians(model, X, y, task, weight)
    own, mean = sizes(pseudo_inverse(H))
    assert summary.errors == "conditional"
    np.testing.assert_allclose(summary.coef_error, own, rtol=1e-5)
    # What tasks share is known less well than their mean, by their deviations.
    deviations = (1.0 - 1.0 / K) / (model.epsilon * M)
    found = {(c.feature, c.label): c for c in summary.class_effects}
    for k in range(K):
        for j in range(D):
            one, total = found[f"x{j}", k], mean[k, j] + deviations
            assert one.mean == pytest.approx(model.coef_[:, k, j].mean())
            assert one.upper - one.mean == pytest.approx(1.959964 * one.error)
            assert one.error**2 == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("intercept", [True, False, "tied"])
@pytest.mark.filterwarnings("ignore:fit_intercept")
def test_errors_with_penalty_are_those_of_noisy_gradients(intercept):
    X, y, task, weight = draw(1)
    given = {"task_prior": "mean", "epsilon": 5.0, "tol": 1e-12}
    model = MultiTaskClassifier(3.0, fit_intercept=intercept, **given)
    model.fit(X, y, task=task, sample_weight=weight)
    summary = model.summary(0.95)
    G, H = hessians(model, X, y, task, weight)
    inverse = pseudo_inverse(H)
    own, mean = sizes(inverse @ G @ inverse)
    assert summary.errors == "bootstrap"
    # 200 replicates know a standard deviation up to 5 %.
    np.testing.assert_allclose(summary.coef_error, own, rtol=0.2)
    assert np.mean(summary.coef_error / own) == pytest.approx(1.0, abs=0.05)
    errors = np.array([c.error for c in summary.class_effects])
    assert np.mean(errors) == pytest.approx(np.mean(np.sqrt(mean)), rel=0.1)


def test_they_say_how_much_estimates_vary():
    """Of one task without ties, whose estimates are those of maximum likelihood."""
    coef, errors = [], []
    for seed in range(200):
        X, y, _, _ = draw(seed, n=400)
        model = MultiTaskClassifier(0.0, epsilon=0.0, tol=1e-11)
        summary = model.fit(X, y).summary(0.95)
        # Without priors nothing says what all classes have in common.
        coef.append(model.coef_[0] - model.coef_[0].mean(axis=0))
        errors.append(summary.coef_error)
    reference = LogisticRegression(C=1e10, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(coef[-1], reference.coef_, atol=1e-3)
    spread = np.std(coef, axis=0)
    np.testing.assert_allclose(np.mean(errors, axis=0), spread, rtol=0.2)


def test_they_are_shown_saved_and_refused(tmp_path):
    X, y, task, _ = draw(2)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(task=task)
    names = np.array(["car", "bus", "train"])[y]
    model = MultiTaskClassifierCV(task="task", lams=[1.0], cv=2).fit(frame, names)
    text = str(model.summary(0.9))
    assert "Effects on classes that tasks share, 90 % intervals" in text
    save(model, tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert again.summary(0.9).class_effects == model.summary(0.9).class_effects
    table = model.summary(0.9).to_frame("class_effects")
    assert table["label"].tolist()[:3] == ["bus", "car", "train"]
    default = tabular_model("classifier", task="task", trees="none", cv=2)
    default.fit(frame, names)
    effects = default[-1].summary(0.95).class_effects
    assert {one.feature for one in effects} >= {"a", "b"}
    assert all(0 < one.error < 1 for one in effects if one.feature == "a")
    signed = MultiTaskClassifier(feature_prior=FeaturePrior.nonnegative([0]))
    with pytest.raises(ValueError, match="no signs"):
        signed.fit(X, y, task=task).summary(0.95)
