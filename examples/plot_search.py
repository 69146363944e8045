"""
How strong should a prior be?
=============================

Cross-validation over all three strengths reads the rows once. The figure shows the
held-out error over two of them, at the best value of the third.
"""

# %%
# Eight related tasks with few rows, and relations between features that are true.
import matplotlib.pyplot as plt
import numpy as np

from priormtl import MultiTaskRegressorCV
from priormtl.datasets import make_related_tasks
from priormtl.plotting import plot_search

data = make_related_tasks(8, 12, 15, drift=0.1, noise=2.0, random_state=0)
X, y, task = data
model = MultiTaskRegressorCV(
    lams=np.geomspace(0.3, 30, 12),
    thetas=[0.0, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0],
    epsilons=[0.0, 1.0, 10.0, 100.0],
    feature_prior=data.feature_prior,
)
model.fit(X, y, task=task)
print(
    f"chosen: lam {model.lam_:.3g}, theta {model.theta_:g}, epsilon {model.epsilon_:g}"
)

# %%
# Zero is among the strengths, so that the figure also says what the prior is worth.
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
plot_search(model, ax=ax)
