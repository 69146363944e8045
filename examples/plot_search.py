"""
Selecting the strength of a prior
=================================

Cross-validation over all three strengths reads the rows only once. The figure shows
the validation error for two of the strengths, at the best value of the third. The
structure (ties, intercepts, task prior) is given here, so that only strengths are
selected.
"""

# %%
# Generate eight related tasks with few rows, and use the true feature prior.
import matplotlib.pyplot as plt
import numpy as np

from priormtl import MultiTaskRegressorCV
from priormtl.datasets import make_related_tasks
from priormtl.plotting import plot_search

data = make_related_tasks(8, 12, 15, drift=0.1, noise=2.0, random_state=0)
X, y, task = data
model = MultiTaskRegressorCV(
    lams=np.geomspace(0.3, 30, 12),
    thetas=[0.0, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0],
    epsilons=[0.0, 1.0, 10.0, 100.0],
    feature_prior=data.feature_prior,
    task_prior="chain",
    ties="uniform",
    fit_intercept=True,
    standardize=False,
)
model.fit(X, y, task=task)
print(f"best: lam {model.lam_:.3g}, theta {model.theta_:g}, epsilon {model.epsilon_:g}")

# %%
# The grid includes zero, so the figure also shows the benefit of the prior.
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
plot_search(model, ax=ax)
ax.set_title(f"Simulated tasks: scores at {ax.get_title()}")
