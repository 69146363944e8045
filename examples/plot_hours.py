"""
Hour of day as a smooth curve
=============================

Most bicycles are hired in the morning and in the evening. The effect of the hour is a
smooth curve that ends where it begins, since hour 24 is hour 0. Each station is a task.
The data are simulated as a sum of harmonics, the usual model of daily curves
(Harvey, *Forecasting, Structural Time Series Models and the Kalman Filter*, 1989).
"""

# %%
# Each of ten stations has a few hours for training and 100 hours for testing.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

from priormtl import FeaturePrior, MultiTaskRegressor, SplineFeatures
from priormtl.plotting import plot_effect


def make_hires(hours, seed):
    """Return hires by hour, and which rows are used for training."""
    rng = np.random.default_rng(seed)
    station = np.repeat(np.arange(10), hours + 100)
    X = pd.DataFrame({"hour": rng.integers(0, 24, len(station)).astype(float)})
    X["warmth"] = rng.normal(size=len(station))
    X["station"] = [f"station {number}" for number in station]
    turn = 2 * np.pi * X["hour"].to_numpy() / 24
    size = 1.0 + 0.3 * rng.normal(size=10)[station]
    curve = -4.0 * np.cos(turn - 0.7) - 3.0 * np.cos(2 * turn - 1.6)
    y = 10.0 + 2.0 * rng.normal(size=10)[station] + size * curve + X["warmth"]
    y += 2.0 * rng.normal(size=len(station))
    return X, y, np.arange(len(station)) % (hours + 100) < hours


def fit(X, y, period):
    """Fit a straight line of the hour (None), or a smooth curve of this period."""
    smooth = period is not None
    model = MultiTaskRegressor(
        lam=0.0,
        task="station",
        task_prior="mean",
        fit_intercept="tied",
        ties="adaptive",
        standardize=True,
        feature_prior=FeaturePrior.smooth(["hour"]) if smooth else None,
    )
    periods = {"hour": period} if smooth else None
    return make_pipeline(SplineFeatures([], periodic=periods), model).fit(X, y)


# %%
# Compare a straight line, a curve with the true period of 24 hours, and one with a
# wrong period of 10 hours. REML estimates how smooth the curve is, and how much it
# varies between stations. A wrong period is worse than a straight line.
periods = {"line": None, "24 hours": 24.0, "10 hours": 10.0}
print("rows" + "".join(f"{name:>12}" for name in periods))
for hours in (5, 10, 40):
    errors = []
    for seed in range(8):
        X, y, train = make_hires(hours, seed)
        fits = [fit(X[train], y[train], period) for period in periods.values()]
        missed = [(model.predict(X[~train]) - y[~train]) ** 2 for model in fits]
        errors.append(np.sqrt(np.mean(missed, axis=1)))
    print(f"{hours:4}" + "".join(f"{e:12.2f}" for e in np.mean(errors, axis=0)))

# %%
# Plot the effect of the hour at each station, with ten rows per station.
X, y, train = make_hires(10, 0)
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
plot_effect(fit(X[train], y[train], 24.0), "hour", ax=ax)
ax.set_title("Simulated hires: effect of the hour at ten stations")
