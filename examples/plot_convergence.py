"""
Six solvers, one certificate
============================

The paper's five methods and the default, measured by the same duality gap: how far the
objective can be from the optimum, at most.
"""

# %%
import matplotlib.pyplot as plt

from priormtl import MultiTaskRegressor
from priormtl.datasets import make_related_tasks
from priormtl.plotting import plot_convergence, trace_fit

data = make_related_tasks(20, 30, 25, random_state=0)
X, y, task = data
model = MultiTaskRegressor(
    lam=20.0, epsilon=10.0, feature_prior=data.feature_prior, tol=1e-9, max_iter=3000
)
solvers = ["auto", "linear", "fista", "ista", "ista-reverse", "gd"]
for _ in range(2):  # the first round loads compiled code
    traces = [trace_fit(model, X, y, task=task, solver=name) for name in solvers]

# %%
# By iterations, of which some cost more than others, and by seconds.
figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
plot_convergence(traces, against="iterations", ax=axes[0], legend=False)
plot_convergence(traces, against="seconds", ax=axes[1])
for ax in axes:
    ax.set_xscale("log")
