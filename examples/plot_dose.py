"""
A dose effect known from a trial
================================

A trial has found that blood pressure falls by 1.5 mmHg per mg of a drug. Eight clinics
with few patients each want to predict the pressure of new patients. The data are
simulated from the model of a multi-centre trial (Brown and Prescott, *Applied Mixed
Models in Medicine*, 2015), with effects that vary a little between clinics.
"""

# %%
# The statement "near −1.5" is a penalty. Cross-validation selects its strength
# ``theta``. It can drop a wrong value, because the default grid contains theta = 0.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from priormtl import FeaturePrior, MultiTaskRegressorCV
from priormtl.plotting import plot_effect


def make_trial(patients, seed):
    """Return patients of eight clinics, and which rows are used for training."""
    rng = np.random.default_rng(seed)
    clinic = np.repeat(np.arange(8), patients + 50)
    X = pd.DataFrame({"dose": rng.integers(0, 5, len(clinic)).astype(float)})
    X["age"] = rng.normal(60.0, 10.0, len(clinic))
    X["clinic"] = [f"clinic {number}" for number in clinic]
    effect = -1.5 + 0.3 * rng.normal(size=8)
    y = 140.0 + 3.0 * rng.normal(size=8)[clinic] + 8.0 * rng.normal(size=len(clinic))
    y += effect[clinic] * X["dose"] + 0.2 * (X["age"] - 60.0)
    return X, y, np.arange(len(clinic)) % (patients + 50) < patients


def fit(X, y, prior, **settings):
    """Fit a mixed model with a statement, whose strength is selected by default."""
    model = MultiTaskRegressorCV(
        lams=[0.0],
        epsilons=[1.0],
        task="clinic",
        task_prior="mean",
        ties="adaptive",
        fit_intercept="tied",
        feature_prior=prior,
        **settings,
    )
    return model.fit(X, y)


# %%
# The true value lowers the error with few patients. A wrong value (+1.5) increases the
# error a lot at a fixed strength, but only a little if the strength is tuned.
true, wrong = FeaturePrior.near({"dose": -1.5}), FeaturePrior.near({"dose": 1.5})
models = {
    "none": (None, {}),
    "true": (true, {}),
    "wrong, fixed": (wrong, {"thetas": [100.0]}),
    "wrong, tuned": (wrong, {}),
}
print("patients" + "".join(f"{name:>14}" for name in models))
for patients in (5, 10, 40):
    errors = []
    for seed in range(4):
        X, y, train = make_trial(patients, seed)
        fits = [fit(X[train], y[train], p, **s) for p, s in models.values()]
        missed = [(model.predict(X[~train]) - y[~train]) ** 2 for model in fits]
        errors.append(np.sqrt(np.mean(missed, axis=1)))
    print(f"{patients:8}" + "".join(f"{e:14.2f}" for e in np.mean(errors, axis=0)))

# %%
# Plot the effect of the dose with five patients per clinic. The known value is dashed.
X, y, train = make_trial(5, 1)
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
plot_effect(fit(X[train], y[train], true), "dose", values=X["dose"], ax=ax)
ax.set_title("Simulated trial: the mean effect is near the known value")
