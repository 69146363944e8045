"""
Regularisation path
===================

The regularisation path starts at the strength for which all coefficients are zero. As
lam decreases, features enter the model for all tasks at once.
"""

# %%
# There are 20 features, half of them informative. The task coupling is fixed.
import matplotlib.pyplot as plt

from priormtl import regularization_path
from priormtl.datasets import make_related_tasks
from priormtl.plotting import plot_path

X, y, task = make_related_tasks(6, 20, 30, noise=2.0, random_state=1)
path = regularization_path(X, y, task=task, epsilon=10.0, lams=60)
entered = [int(active.sum()) for active in path.active]
print("number of features:", entered[::10])

# %%
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
plot_path(path, top=6, ax=ax)
ax.set_title("Simulated tasks: features enter for all tasks at once")
