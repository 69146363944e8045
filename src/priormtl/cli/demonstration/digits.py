"""Digits, told apart from three images each: neighbouring pixels are alike."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from priormtl.cli.demonstration.trials import SHARED, TASK, Part, Rows, split
from priormtl.data import one_vs_one
from priormtl.estimators import MultiTaskClassifierCV
from priormtl.priors import FeaturePrior

__all__ = ["pose_digits"]

IMAGES = 3  # of each digit
THETAS = [0.0, 0.3, 1.0, 3.0, 10.0]


def pose_digits() -> Part:
    """45 pairs of digits with and without a grid of pixels."""
    settings = SHARED | {"lams": [0.1, 0.3, 1.0], "epsilons": [0.0], "tol": 1e-5}
    plain = MultiTaskClassifierCV(thetas=[0.0], **settings)
    smooth = MultiTaskClassifierCV(
        thetas=THETAS, feature_prior=FeaturePrior.grid(8, 8), **settings
    )
    return Part(
        f"Digits: 45 pairs of digits, 64 pixels, {IMAGES} images per digit",
        "AUC",
        {"no prior": plain, "pixel grid": smooth},
        _draw,
        _mean_auc,
        IMAGES,
    )


def _draw(images: int, seed: int) -> tuple[Rows, Rows]:
    pixels, digit = load_digits(return_X_y=True)
    train, test = split(pixels / 16.0, digit, digit, images, seed)
    return _as_pairs(train), _as_pairs(test)


def _as_pairs(images: Rows) -> Rows:
    """Pairs of digits as tasks; an image keeps its fold in all of them."""
    X, y, task = one_vs_one(np.column_stack([images.fold, images.X]), images.y)
    codes = np.unique(task, return_inverse=True)[1]
    return Rows(np.column_stack([codes, X[:, 1:]]), y, X[:, 0].astype(np.intp))


def _mean_auc(model: MultiTaskClassifierCV, test: Rows) -> float:
    """Area under the ROC curve, averaged over tasks."""
    scores = model.decision_function(test.X)
    tasks = test.X[:, TASK]
    rows = [tasks == task for task in np.unique(tasks)]
    return float(np.mean([roc_auc_score(test.y[r], scores[r]) for r in rows]))
