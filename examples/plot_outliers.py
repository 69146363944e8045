"""
One task does not belong
========================

Twelve sites measure the same thing, but one codes its target the other way round. Ties
between sites then spoil the others. With a part of its own, the odd one is named.
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
print("named:", robust.outlier_tasks_)
others = np.arange(12) != 4
for name, model in {"tied": plain, "named": robust}.items():
    error = np.abs(model.coef_ - data.coef)[others].mean()
    print(f"{name}: mean error of the other tasks' coefficients {error:.3f}")

# %%
# Coefficients without and with a part of its own for the odd task.
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for ax, model, name in zip(axes, (plain, robust), ("tied", "named"), strict=True):
    plot_coefficients(model, features=list(range(8)), ax=ax)
    ax.set_title(name)
