"""
Comparison of six solvers
=========================

The default solver and the five methods of the paper are compared by the duality gap,
an upper bound on the distance of the objective from the optimum.
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
for _ in range(2):  # the first round includes compilation
    traces = [trace_fit(model, X, y, task=task, solver=name) for name in solvers]

# %%
# Plot the gap against iterations and against seconds, since the cost of one iteration
# depends on the solver.
figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
plot_convergence(traces, against="iterations", ax=axes[0], legend=False)
plot_convergence(traces, against="seconds", ax=axes[1])
for ax in axes:
    ax.set_xscale("log")
figure.suptitle("Simulated tasks (20 tasks, 30 features): auto is the fastest")
