"""
Audit of a wrong relation
=========================

A prior may contain a wrong relation. The audit ranks relations by their disagreement
with the data, and estimates the benefit of the prior as a whole.
"""

# %%
# Add a wrong relation to the true ones: the features with the largest and the smallest
# effect are assumed to be similar.
import matplotlib.pyplot as plt
import numpy as np

from priormtl import FeaturePrior, MultiTaskRegressor, audit_prior
from priormtl.datasets import make_related_tasks
from priormtl.plotting import plot_prior

data = make_related_tasks(10, 12, 20, random_state=0)
X, y, task = data
size = np.abs(data.coef).mean(axis=0)
wrong = FeaturePrior.similar([(int(size.argmax()), int(size.argmin()))])
model = MultiTaskRegressor(
    lam=5.0, theta=10.0, feature_prior=data.feature_prior + wrong, standardize=True
)
model.fit(X, y, task=task)
audit = audit_prior(model, X, y, task=task, cv=4)
for each in audit.relations[:3]:
    print(f"{each.relation}: test statistic {each.statistic:.1f}, {each.verdict}")
print(audit.helped.sentence)

# %%
# Plot relations as lines. The relation that the data contradict is crossed out.
figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
plot_prior(model, audit=audit, ax=ax)
ax.set_title("Simulated tasks: the wrong relation is crossed out")
