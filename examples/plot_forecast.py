"""
Forecasts with bands that widen
===============================

Investment of eleven American firms from 1935 to 1954 (Grunfeld's panel, a classic of
econometrics). Each firm is a task. What will they invest in the last four years, given
the sixteen years before?
"""

# %%
# With ``time="year"`` the model is chosen on folds that go forward in time, and
# intervals are made of their residuals: they widen with the horizon.
import matplotlib.pyplot as plt
import numpy as np
from statsmodels.datasets import grunfeld

from priormtl import tabular_model

panel = grunfeld.load_pandas().data.astype({"year": int})
invest = np.log(panel.pop("invest").to_numpy())
panel[["value", "capital"]] = np.log(panel[["value", "capital"]])
early = (panel["year"] <= 1950).to_numpy()
past, future = panel[early], panel[~early]
model = tabular_model("regressor", task="firm", time="year")
model.fit(past, invest[early])
forecast, ends = model.predict(future), model.predict_interval(future)

# %%
# The control is the same model chosen for rows left out at random, as if the target of
# a year between two others were missing. Its error is larger, and its intervals of 90 %
# are much too narrow for later years.
plain = tabular_model("regressor", task="firm").fit(past, invest[early])


def judge(name, model):
    """Print error and coverage on the last four years."""
    low, high = model.predict_interval(future).T
    inside = np.mean((low <= invest[~early]) & (invest[~early] <= high))
    error = np.sqrt(np.mean((model.predict(future) - invest[~early]) ** 2))
    print(f"{name}: error {error:.2f}, {inside:.0%} of targets in 90 % intervals")


judge("chosen for later rows", model)
judge("chosen for rows at random", plain)

# %%
# Four firms. Dots are what they invested, on a logarithmic scale.
fig, axes = plt.subplots(2, 2, figsize=(8, 5), sharex=True, layout="constrained")
names = ["General Motors", "General Electric", "IBM", "Goodyear"]
for name, ax in zip(names, axes.flat, strict=True):
    own = (panel["firm"] == name).to_numpy()
    later = (future["firm"] == name).to_numpy()
    ax.plot(panel["year"][own], np.exp(invest[own]), "o", ms=3, color="black")
    years = future["year"][later]
    ax.plot(years, np.exp(forecast[later]), color="tab:blue")
    ax.fill_between(years, *np.exp(ends[later].T), alpha=0.25, color="tab:blue")
    ax.set(title=name, yscale="log")
fig.supylabel("investment, million dollars of 1947")
plt.show()
