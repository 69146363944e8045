"""
Effects that change with age
============================

442 patients with diabetes; the target says how far the disease has come after a year.
Each age group is a task. Neighbouring ages are alike, so a chain ties them: effects may
drift, but not jump.
"""

# %%
# The data come with scikit-learn; serum measurements get their names.
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_diabetes

from priormtl import MultiTaskRegressorCV
from priormtl.audits import resample_coefficients
from priormtl.plotting import plot_coefficients, plot_over_tasks

names = {"s1": "cholesterol", "s2": "ldl", "s3": "hdl", "s4": "ratio"}
names |= {"s5": "triglycerides", "s6": "glucose", "bp": "pressure"}
table = load_diabetes(as_frame=True, scaled=False).frame.rename(columns=names)
age = pd.cut(
    table.pop("age"),
    [0, 35, 45, 55, 65, 100],
    labels=["19-35", "36-45", "46-55", "56-65", "66-79"],
)
X, y = table.drop(columns="target"), table["target"]

# %%
# Strengths are chosen by cross-validation, ties between ages among them.
model = MultiTaskRegressorCV(
    lams=15,
    thetas=[0.0],
    epsilons=[0.0, 10.0, 100.0, 1000.0],
    fit_intercept="tied",
    standardize=True,
)
model.fit(X, y, task=age)
print(f"lam {model.lam_:.3g}, epsilon {model.epsilon_:g}")
print(f"objective {model.objective_:.0f}, certified gap {model.dual_gap_:.1e}")

# %%
# Triglycerides and body mass count most, at every age. Cholesterol and LDL, which is
# most of it, have effects that nearly cancel: rows can hardly tell them apart.
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
plot_coefficients(model, per="deviation", ax=ax)

# %%
# Bands come from refits on resampled rows.
resampled = resample_coefficients(model, X, y, task=age, n_resamples=40)
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
plot_over_tasks(model, ["bmi", "pressure"], band=resampled.band(0.9), ax=ax)
