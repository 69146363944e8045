"""
Benefit of a prior for few training rows
========================================

A correct prior reduces the number of rows needed for a given accuracy. The learning
curves show that the benefit decreases with the number of training rows.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from priormtl import MultiTaskRegressorCV
from priormtl.datasets import make_related_tasks
from priormtl.plotting import plot_learning_curve

data = make_related_tasks(12, 20, 120, drift=0.15, noise=2.0, random_state=0)
X, y, task = data
sizes, repeats = [8, 12, 20, 40, 80], 3
strengths = [0.0, 3.0, 30.0]
grids = {
    "no prior": {"thetas": [0.0], "epsilons": [0.0]},
    "with prior": {"thetas": strengths, "epsilons": strengths},
}
structure = {"task_prior": "chain", "ties": "uniform", "fit_intercept": True}


def score(grid, size, seed):
    """Return R² on held-out rows after tuning on ``size`` rows per task."""
    place = np.random.default_rng(seed).permutation(120)
    train = np.tile(place < size, 12)
    model = MultiTaskRegressorCV(
        lams=6, cv=3, feature_prior=data.feature_prior, **structure, **grid
    )
    model.fit(X[train], y[train], task=task[train])
    return model.score(X[~train], y[~train], task=task[~train])


# %%
# Tune each model on its training rows only, with and without relations between features
# and tasks. Bands are standard errors over three draws.
scores = {
    name: np.array([[score(grid, n, seed) for seed in range(repeats)] for n in sizes])
    for name, grid in grids.items()
}
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
plot_learning_curve(
    sizes, scores, score="R² on held-out rows", size="Training rows per task", ax=ax
)
ax.set_title("Simulated tasks: the prior helps most with few rows")
