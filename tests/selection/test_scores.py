"""Scores: statistics and rows agree, and so does scikit-learn."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from instances import plain_rows, random_tasks, with_signs
from priormtl.data import from_labels, summarize_tasks
from priormtl.metrics import task_aucs
from priormtl.selection import (
    MeanAuc,
    RowError,
    StatisticsError,
    validation_errors,
)

LAW = settings(max_examples=30, deadline=None, derandomize=True, database=None)


def models(data, count=4, seed=1):
    d, m = data.shape
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, m, d)), rng.normal(size=(count, m))


@pytest.mark.parametrize("layout", ["stacked", "weighted", "shared", "gaps", "sparse"])
def test_errors_are_those_of_the_rows(layout):
    data = random_tasks(layout)
    coefs, intercepts = models(data)
    known = [
        [
            np.sum(w * (X @ coef[i] + b[i] - y) ** 2)
            for i, (X, y, w) in enumerate(plain_rows(data))
        ]
        for coef, b in zip(coefs, intercepts, strict=True)
    ]
    found = validation_errors(summarize_tasks(data), coefs, intercepts)
    np.testing.assert_allclose(found, known, rtol=1e-10)
    mean = -np.sum(known, axis=1) / data.task_weight.sum()
    np.testing.assert_allclose(
        StatisticsError(summarize_tasks(data))(coefs, intercepts), mean
    )
    streamed = replace(summarize_tasks(data), xx=summarize_tasks(data).mapped_gram())
    np.testing.assert_allclose(StatisticsError(streamed)(coefs, intercepts), mean)
    every = np.arange(data.shape[1])
    np.testing.assert_allclose(RowError(data, every)(coefs, intercepts), mean)


def test_a_perfect_fit_has_no_negative_error():
    X = np.random.default_rng(0).normal(size=(9, 2)) + 100.0
    data = from_labels(X, X @ [1.0, 2.0], np.zeros(9))
    errors = validation_errors(
        summarize_tasks(data), np.array([[[1.0, 2.0]]]), np.zeros((1, 1))
    )
    assert 0 <= errors[0, 0] < 1e-6


def test_rows_of_some_tasks_use_their_models():
    data = random_tasks("stacked", m=2)
    coefs, intercepts = models(random_tasks("stacked", m=5))
    some = np.array([3, 1])
    np.testing.assert_array_equal(
        RowError(data, some)(coefs, intercepts),
        RowError(data, np.arange(2))(coefs[:, some], intercepts[:, some]),
    )


@LAW
@given(st.integers(0, 10**6), st.booleans())
def test_areas_agree_with_scikit_learn(seed, weighted):
    rng = np.random.default_rng(seed)
    n, m = 40, 4
    scores = rng.integers(6, size=n).astype(float)  # many ties
    positive = rng.random(n) < 0.5
    task = rng.integers(m, size=n)
    weight = rng.uniform(0.1, 2.0, n) if weighted else np.ones(n)
    areas = task_aucs(scores, positive, task, weight, m)
    for i in range(m):
        own = task == i
        if len(set(positive[own])) < 2:
            assert np.isnan(areas[i])
            continue
        known = roc_auc_score(positive[own], scores[own], sample_weight=weight[own])
        assert areas[i] == pytest.approx(known)


@pytest.mark.parametrize("layout", ["stacked", "weighted", "shared", "gaps"])
def test_mean_area_leaves_tasks_of_one_class_out(layout):
    data = with_signs(random_tasks(layout, n=12))
    coefs, intercepts = models(data)
    every = np.arange(data.shape[1])
    known = []
    for coef in coefs:
        areas = [
            roc_auc_score(y, X @ coef[i], sample_weight=w)
            for i, (X, y, w) in enumerate(plain_rows(data))
            if len(set(y)) == 2
        ]
        known.append(np.mean(areas))
    np.testing.assert_allclose(MeanAuc(data, every)(coefs, intercepts), known)


def test_one_class_everywhere_has_no_area():
    data = from_labels(np.ones((3, 1)), np.ones(3), np.zeros(3))
    score = MeanAuc(data, np.arange(1))
    assert np.isnan(score(np.ones((1, 1, 1)), np.zeros((1, 1)))).all()
