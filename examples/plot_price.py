"""
A price effect that cannot be positive
======================================

Shops sell less of a product when it is more expensive. With few weeks per shop,
estimates of the price elasticity may still be positive in some shops. The data are
simulated from the hierarchical demand model of Rossi, Allenby and McCulloch (*Bayesian
Statistics and Marketing*, 2005): log sales on log prices, with effects that vary
between shops.
"""

# %%
# Each of 12 shops has a few weeks for training and 40 weeks for testing.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from priormtl import FeaturePrior, MultiTaskRegressor
from priormtl.plotting import plot_effect


def make_sales(weeks, seed):
    """Return log sales on prices, and which rows are used for training."""
    rng = np.random.default_rng(seed)
    shop = np.repeat(np.arange(12), weeks + 40)
    X = pd.DataFrame(0.3 * rng.normal(size=(len(shop), 2)), columns=["price", "rival"])
    X["shop"] = [f"shop {number:02}" for number in shop]
    price = -np.abs(1.0 + 0.8 * rng.normal(size=12))
    rival = 0.4 + 0.2 * rng.normal(size=12)
    y = 5.0 + 0.5 * rng.normal(size=12)[shop] + rng.normal(size=len(shop))
    y += price[shop] * X["price"] + rival[shop] * X["rival"]
    return X, y, np.arange(len(shop)) % (weeks + 40) < weeks


def fit(X, y, prior):
    """Fit a mixed model whose effects satisfy the prior."""
    model = MultiTaskRegressor(
        lam=0.0,
        task="shop",
        task_prior="mean",
        fit_intercept="tied",
        ties="adaptive",
        feature_prior=prior,
    )
    return model.fit(X, y)


# %%
# Compare no statement, the true one (price at most 0, rival's price at least 0), and a
# wrong one (price at least 0), by the error on new weeks. The true statement helps
# with few weeks and hardly matters with many. The wrong one always does harm.
fall, rise = FeaturePrior.nonpositive, FeaturePrior.nonnegative
priors = {
    "none": None,
    "true": fall(["price"]) + rise(["rival"]),
    "wrong": rise(["price"]),
}
print("weeks   " + "".join(f"{name:>8}" for name in priors))
for weeks in (4, 8, 40):
    errors = []
    for seed in range(20):
        X, y, train = make_sales(weeks, seed)
        fits = [fit(X[train], y[train], prior) for prior in priors.values()]
        missed = [(model.predict(X[~train]) - y[~train]) ** 2 for model in fits]
        errors.append(np.sqrt(np.mean(missed, axis=1)))
    print(f"{weeks:5}   " + "".join(f"{e:8.3f}" for e in np.mean(errors, axis=0)))

# %%
# Plot the effects of the price with four weeks per shop, with and without statement.
X, y, train = make_sales(4, 12)
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", sharey=True)
titles = {"none": "no statement", "true": "price effect at most 0"}
for ax, (name, title) in zip(axes, titles.items(), strict=True):
    model = fit(X[train], y[train], priors[name])
    plot_effect(model, "price", values=X["price"], ax=ax, legend=False)
    ax.set_title(f"Simulated shops: {title}")
