"""
Adaptive shrinkage towards the mean
===================================

There are many groups with few rows each, as in a mixed model. Separate regressions for
each group are noisy, and a single regression for all groups is biased. Adaptive
coupling estimates the strength of shrinkage towards the mean for each feature.
"""

# %%
# The slopes of the first feature vary strongly between groups, those of the second
# only slightly.
import matplotlib.pyplot as plt
import numpy as np

from priormtl import MultiTaskRegressor

rng = np.random.default_rng(0)
group = np.repeat(np.arange(30), 10)
X = rng.standard_normal((300, 2))
slopes = np.array([1.0, -1.0]) + rng.standard_normal((30, 2)) * [0.8, 0.15]
y = (X * slopes[group]).sum(axis=1) + rng.standard_normal(300)

alone = MultiTaskRegressor(lam=0.0, task_prior=None).fit(X, y, task=group)
tied = MultiTaskRegressor(
    lam=0.0, task_prior="mean", ties="adaptive", fit_intercept="tied"
).fit(X, y, task=group)
for name, model in {"separate": alone, "adaptive": tied}.items():
    error = np.sqrt(np.mean((model.coef_ - slopes) ** 2, axis=0))
    print(f"{name}: root mean squared error of slopes {error.round(2)}")

# %%
# Adaptive coupling shrinks the slopes of the second feature to their mean.
figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
titles = "slopes vary strongly", "slopes vary slightly"
for j, ax in enumerate(axes):
    ax.axline((0, 0), slope=1, color="0.7", linewidth=1, zorder=0)
    ax.scatter(slopes[:, j], alone.coef_[:, j], marker="x", color="#d55e00", s=24)
    ax.scatter(slopes[:, j], tied.coef_[:, j], marker="o", color="#0072b2", s=20)
    ax.set(xlabel="true slope of a group", title=f"Simulated groups: {titles[j]}")
axes[0].set_ylabel("estimated slope")
axes[0].legend(["true slope", "separate", "adaptive coupling"], frameon=False)
