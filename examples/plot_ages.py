"""
Effects that change with age
============================

The data are 442 patients with diabetes, and the target is the progression of the
disease after one year. Each age group is a task. A chain couples neighbouring age
groups, so that effects change gradually with age.
"""

# %%
# Load the data from scikit-learn and rename the blood measurements.
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_diabetes

from priormtl import MultiTaskRegressorCV
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
# Select all strengths by cross-validation, including the coupling of age groups.
model = MultiTaskRegressorCV(
    lams=15,
    thetas=[0.0],
    epsilons=[0.0, 10.0, 100.0, 1000.0],
    task_prior="chain",
    ties="uniform",
    fit_intercept="tied",
    intercept_strength=1.0,
)
model.fit(X, y, task=age)
print(f"lam {model.lam_:.3g}, epsilon {model.epsilon_:g}")
print(f"objective {model.objective_:.0f}, duality gap {model.dual_gap_:.1e}")

# %%
# Cholesterol and triglycerides have the largest coefficients. Those of cholesterol and
# LDL have opposite signs and partly cancel, because both are strongly correlated. The
# coefficient of sex changes most with age.
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
plot_coefficients(model, per="deviation", ax=ax)
ax.set_title("Diabetes: effects by age group")

# %%
# Intervals are those of ``model.summary(0.9)``.
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
plot_over_tasks(model, ["bmi", "pressure"], band=0.9, ax=ax)
ax.set_title("Diabetes: two effects by age group, with 90 % bands")
