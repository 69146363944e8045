"""
Detection of outlier tasks
==========================

Twelve sites measure the same variables, but one of them codes its target with the
opposite sign. If it is coupled with the other sites, it distorts their coefficients.
``outlier_tasks=True`` identifies this site and gives it a task-specific component.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from priormtl import MultiTaskRegressor
from priormtl.datasets import make_related_tasks
from priormtl.plotting import plot_coefficients

data = make_related_tasks(12, 8, 40, drift=0.1, random_state=0)
X, y, task = data
y = np.where(task == 4, -y, y)
settings = {"lam": 5.0, "epsilon": 1000.0, "task_prior": "mean"}
plain = MultiTaskRegressor(**settings).fit(X, y, task=task)
robust = MultiTaskRegressor(outlier_tasks=True, **settings).fit(X, y, task=task)
print("outlier tasks:", robust.outlier_tasks_)
others = np.arange(12) != 4
for name, model in {"all coupled": plain, "outlier identified": robust}.items():
    error = np.abs(model.coef_ - data.coef)[others].mean()
    print(f"{name}: mean error of coefficients of the other tasks {error:.3f}")

# %%
# Plot the coefficients without and with a task-specific component for the outlier.
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
names = "all coupled", "outlier identified"
for ax, model, name in zip(axes, (plain, robust), names, strict=True):
    plot_coefficients(model, features=list(range(8)), ax=ax)
    ax.set_title(f"Simulated sites: {name}")
