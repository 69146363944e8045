"""
Smoothness prior for images
===========================

Digits are classified from three training images per class, with one task per pair of
digits and 64 pixels as features. The prior states that neighbouring pixels have
similar coefficients.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from priormtl import FeaturePrior, MultiTaskClassifier, one_vs_one
from priormtl.plotting import plot_roc

pixels, digit = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(digit))
rank = np.empty(len(digit), int)
for label in range(10):
    members = order[digit[order] == label]
    rank[members] = np.arange(len(members))
train, test = rank < 3, (rank >= 3) & (rank < 40)
X, y, task = one_vs_one(pixels[train] / 16, digit[train])
plain = MultiTaskClassifier(lam=0.1, theta=0.0, epsilon=0.0).fit(X, y, task=task)
smooth = MultiTaskClassifier(
    lam=0.1, theta=1.0, epsilon=0.0, feature_prior=FeaturePrior.grid(8, 8)
).fit(X, y, task=task)

# %%
# Plot the coefficients for one pair of digits. Dark pixels indicate the first digit,
# light pixels the second. Each image has its own colour scale.
pair = 11
figure, axes = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained")
for ax, model, name in zip(axes, (plain, smooth), ("no prior", "grid"), strict=True):
    image = model.coef_[pair].reshape(8, 8)
    limit = abs(image).max()
    ax.imshow(image, cmap="cividis", vmin=-limit, vmax=limit)
    ax.set(title=f"Digits {model.tasks_[pair]}, {name}", xticks=[], yticks=[])

# %%
# Plot ROC curves on test images.
figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
X, y, task = one_vs_one(pixels[test] / 16, digit[test])
for ax, model, name in zip(axes, (plain, smooth), ("no prior", "grid"), strict=True):
    plot_roc(model, X, y, task=task, ax=ax, legend=False)
    ax.set_title(f"Digits, {name}: {ax.get_title()}")
