"""Neural components: they learn curves, and ask for what they need."""

import numpy as np
import pytest

from priormtl.baselines.fedem import FedEM, FedEMClassifier
from priormtl.baselines.mixtures import networks


def crooked(m=4, n=80):
    """Two curves, of which each task follows one."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(m), n)
    X = rng.uniform(-1.0, 1.0, (m * n, 2))
    y = np.abs(3 * X[:, 0]) * np.where(task % 2, 1.0, -1.0)
    return X, y, task


@pytest.fixture
def neural():
    """Settings; scikit-learn 1.6 cannot, and is refused, as is tested elsewhere."""
    pytest.importorskip("sklearn", "1.7", reason="its networks weigh no samples")
    return {"component": "mlp", "hidden": (16,), "n_init": 1, "epochs": 5}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_networks_learn_what_lines_cannot(neural):
    X, y, task = crooked()
    model = FedEM(2, 1e-3, max_iter=30, **neural).fit(X, y, task=task)
    assert model.score(X, y, task=task) > 0.7
    assert FedEM(2).fit(X, y, task=task).score(X, y, task=task) < 0.1
    assert len(model.components_) == 2
    assert not hasattr(model, "coef_")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_networks_classify(neural):
    X, y, task = crooked()
    labels = np.where(np.abs(y) > 1.5, "far", "near")
    model = FedEMClassifier(2, 1e-3, max_iter=30, **neural)
    model.fit(X, labels, task=task)
    assert model.score(X, labels, task=task) > 0.8
    total = model.predict_proba(X, task=task).sum(axis=1)
    np.testing.assert_allclose(total, 1.0)


def test_networks_are_not_averaged(neural):
    X, y, task = crooked()
    with pytest.raises(ValueError, match='mode must be "exact"'):
        FedEM(mode="federated", **neural).fit(X, y, task=task)


def test_networks_need_weights(neural, monkeypatch):
    class Old:
        def partial_fit(self, X, y): ...

    monkeypatch.setattr(networks, "MLPRegressor", Old)
    X, y, task = crooked()
    with pytest.raises(ImportError, match=r"needs scikit-learn 1\.7"):
        FedEM(**neural).fit(X, y, task=task)
