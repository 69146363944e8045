"""Hints: targets of two numbers are noticed, others are not."""

import warnings

import numpy as np
import pytest

from priormtl.cli.hints import hint_at_classes, hint_at_strength
from priormtl.data import summarize

RNG = np.random.default_rng(0)
X, TASK = RNG.normal(size=(60, 2)), np.repeat([0, 1, 2], 20)
CLASSES = RNG.integers(0, 2, 60)


def parts(y, weight=None):
    return [
        summarize(
            X[k::2], y[k::2], TASK[k::2], None if weight is None else weight[k::2]
        )
        for k in range(2)
    ]


@pytest.mark.parametrize("weight", [None, RNG.uniform(0.1, 9.0, 60)])
@pytest.mark.parametrize("y", [CLASSES, CLASSES * (TASK == 1), CLASSES.astype(bool)])
def test_zeros_and_ones_are_noticed(y, weight):
    with pytest.warns(UserWarning, match="'passed' are 0 or 1.*--classify"):
        hint_at_classes("passed", parts(y, weight))


@pytest.mark.parametrize(
    "y",
    [
        *(np.zeros(60), np.ones(60), 2 * CLASSES, 2 * CLASSES - 1, CLASSES - 1),
        *(RNG.normal(size=60), CLASSES + 1e-3 * X[:, 0], CLASSES * 1e-6),
        np.where(np.arange(60) == 7, 2, CLASSES),
    ],
)
def test_other_numbers_are_not(y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hint_at_classes("score", parts(y))


def test_strengths_of_nothing_are_told():
    with pytest.warns(UserWarning, match="--theta has no effect without --prior"):
        hint_at_strength("theta", "--prior")
