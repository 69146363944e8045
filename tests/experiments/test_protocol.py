"""Splits, scales, folds and scores: alike for all, and nothing leaks."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from sklearn.metrics import r2_score, roc_auc_score

from paper_data import KINDS, MAKERS
from priormtl.experiments import protocol as room
from priormtl.experiments.protocol import (
    PROTOCOLS,
    Budget,
    find_protocol,
    load_rows,
    make_split,
    score_tasks,
)

IMAGES = ("yale", "letter", "orl")
SIZES = {"school": (3, 10), "sarcos": (5, 50), "yale": (2, 4), "orl": (2, 4)}
everywhere = pytest.mark.parametrize("name", KINDS)
on_images = pytest.mark.parametrize("name", IMAGES)


def drawn(name, repeat=0, size=None, data=None):
    """Positions of training and test rows, as ``make_split`` draws them."""
    data = data or MAKERS[name]()
    kept = []

    def draw(*arguments):
        kept.append(PROTOCOLS[name].draw(*arguments))
        return kept[0]

    make_split(replace(PROTOCOLS[name], draw=draw), data, repeat, size)
    return data, *kept[0]


def split_of(name, repeat=0, size=None, data=None):
    return make_split(PROTOCOLS[name], data or MAKERS[name](), repeat, size)


def arrays(split):
    train, test, unit, folds = split
    return [a for a in (*train, *test, unit, folds) if a is not None]


def equal(first, second):
    pairs = zip(arrays(first), arrays(second), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def classes_of(data, rows):
    return set(data.label[data.sample[rows]].tolist())


# Rows of both sides.


@everywhere
@pytest.mark.parametrize("repeat", [0, 7])
def test_both_sides_are_disjoint_and_hold_no_row_twice(name, repeat):
    _, train, test = drawn(name, repeat)
    both = np.concatenate([train, test])
    assert len(np.unique(both)) == len(both)


@pytest.mark.parametrize("name", ["school", *IMAGES])
def test_every_row_is_used(name):
    data, train, test = drawn(name)
    assert len(train) + len(test) == len(data.sample)


def test_school_trains_on_20_pupils_of_each_school():
    data, train, test = drawn("school")
    assert np.bincount(data.code[train]).tolist() == [20] * 5
    assert np.bincount(data.code[test]).tolist() == [7, 8, 9, 10, 11]


def test_school_keeps_a_quarter_of_each_task_to_judge_by():
    data, train, _ = drawn("school", size=100)
    counts = np.bincount(data.code)
    np.testing.assert_array_equal(
        np.bincount(data.code[train]), np.floor(0.75 * counts)
    )


def test_sarcos_uses_2000_rows_and_judges_by_those_no_size_trains_on(monkeypatch):
    _, train, test = drawn("sarcos")
    assert len(train) == 50
    assert len(test) == 160 - max(PROTOCOLS["sarcos"].sizes)
    monkeypatch.setattr(room, "SARCOS_ROWS", 120)
    _, _, fewer = drawn("sarcos")
    assert len(fewer) == 120 - max(PROTOCOLS["sarcos"].sizes)


@on_images
@pytest.mark.parametrize("size", [None, 2])
def test_no_image_is_on_both_sides_in_any_task(name, size):
    data, train, test = drawn(name, size=size)
    assert not set(data.sample[train]) & set(data.sample[test])


@on_images
def test_images_of_one_group_stay_together(name):
    data, train, test = drawn(name)
    assert not set(data.groups[train]) & set(data.groups[test])


@pytest.mark.parametrize("name", ["yale", "orl"])
def test_six_images_in_ten_of_each_class_are_trained_on(name):
    data, train, _ = drawn(name)
    images = np.unique(data.sample[train])
    assert set(np.bincount(data.label[images])) == {6}


@on_images
@pytest.mark.parametrize("repeat", range(3))
def test_every_class_is_trained_on(name, repeat):
    data, train, _ = drawn(name, repeat, size=2)
    assert classes_of(data, train) == set(data.label.tolist())


def test_a_size_counts_images_per_class():
    data, train, _ = drawn("orl", size=3)
    assert np.bincount(data.label[data.sample[train]]).tolist() == [3] * 5


@everywhere
@pytest.mark.parametrize("size", [None, 5])
def test_every_task_is_on_both_sides(name, size):
    data = MAKERS[name]()
    split = split_of(name, size=size, data=data)
    if data.code is not None:
        assert set(split.train.task) == set(split.test.task) == set(data.task_names)
    else:
        assert split.train.y.shape[1] == split.test.y.shape[1] == len(data.task_names)


# Repeats and sizes.


@everywhere
def test_a_repeat_is_one_split_and_another_repeat_another(name):
    assert equal(split_of(name), split_of(name))
    assert not equal(split_of(name), split_of(name, repeat=1))


@pytest.mark.parametrize("name", SIZES)
def test_more_rows_hold_the_fewer_ones(name):
    fewer, more = (set(drawn(name, size=size)[1]) for size in SIZES[name])
    assert fewer < more
    assert more <= set(drawn(name)[1]) or name == "sarcos"


@pytest.mark.parametrize("name", ["sarcos", *IMAGES])
def test_all_sizes_are_judged_by_the_same_rows(name):
    tests = [drawn(name, size=size)[2] for size in (None, 5, 6)]
    for other in tests[1:]:
        np.testing.assert_array_equal(other, tests[0])


# Scales.


@everywhere
def test_scales_are_learned_from_training_rows_only(name):
    data, _, test = drawn(name)
    changed = data.originals.copy()
    touched = data.sample[test]
    changed[touched] = 255 - changed[touched]
    before = split_of(name, data=data)
    after = split_of(name, data=replace(data, originals=changed))
    np.testing.assert_array_equal(before.train.X, after.train.X)
    assert not np.array_equal(before.test.X, after.test.X)


@everywhere
def test_training_features_have_mean_zero(name):
    X = split_of(name).train.X
    np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize("name", ["school", "sarcos"])
def test_columns_have_variance_one_unless_they_are_constant(name):
    spread = split_of(name).train.X.std(axis=0)
    varies = MAKERS[name]().X.std(axis=0) > 0
    np.testing.assert_allclose(spread, np.where(varies, 1.0, 0.0), atol=1e-12)


@on_images
def test_pixels_share_one_scale(name):
    data, train, _ = drawn(name)
    scaled, raw = split_of(name).train.X, data.rows(train).X
    ratio = raw.std(axis=0) / scaled.std(axis=0)
    np.testing.assert_allclose(ratio, ratio[0])
    assert np.mean(scaled**2) == pytest.approx(1.0)


@everywhere
def test_constant_columns_stay_finite(name):
    data = MAKERS[name]()
    flat = replace(data, originals=np.full_like(data.originals, 7))
    for part in arrays(split_of(name, data=flat)):
        assert part is not None
        assert np.asarray(part).dtype.kind != "f" or np.all(np.isfinite(part))


def test_shared_targets_are_divided_by_their_deviation_and_others_are_not():
    data, train, test = drawn("sarcos")
    split = split_of("sarcos")
    np.testing.assert_allclose(split.train.y.std(axis=0), 1.0)
    np.testing.assert_allclose(split.train.y * split.unit, data.y[train])
    np.testing.assert_array_equal(split.test.y, data.y[test])
    for name in ("school", "yale", "orl"):
        assert split_of(name).unit == 1.0


# Folds.


@pytest.mark.parametrize(
    ("name", "size"),
    [*product(KINDS, [None]), *product(("school", *IMAGES), [2, 3]), ("sarcos", 5)],
)
def test_folds_leave_every_task_and_both_classes_in_training(name, size):
    data = MAKERS[name]()
    train, _, _, folds = split_of(name, size=size, data=data)
    for fold in range(folds.max() + 1):
        y = train.y[folds != fold]
        if train.task is None:
            groups = list(y.T)
        else:
            groups = [y[train.task[folds != fold] == task] for task in data.task_names]
        wanted = {-1.0, 1.0} if data.kind == "classification" else set()
        for group in groups:
            assert len(group)
            assert wanted <= set(group)


@pytest.mark.parametrize("name", ["school", "sarcos", "yale", "orl"])
def test_there_are_five_folds_of_about_one_size(name):
    folds = split_of(name).folds
    counts = np.bincount(folds[folds >= 0])
    assert len(counts) == 5
    assert counts.max() - counts.min() <= 0.25 * len(folds)


@on_images
def test_an_image_has_one_fold_in_all_tasks(name):
    data, train, _ = drawn(name)
    folds = split_of(name).folds
    for image in np.unique(data.sample[train]):
        assert len(set(folds[data.sample[train] == image])) == 1


def test_with_few_images_per_class_there_are_fewer_folds():
    for size in (2, 3, 4):
        assert split_of("yale", size=size).folds.max() + 1 == size


# Scores.


def test_regression_is_scored_by_r2_pooled_and_task_by_task():
    data = MAKERS["school"]()
    test = split_of("school", data=data).test
    guess = test.y + np.random.default_rng(0).normal(size=len(test.y))
    values = {(s.metric, s.task): s.value for s in score_tasks(data, test, guess)}
    each = [
        r2_score(test.y[test.task == task], guess[test.task == task])
        for task in data.task_names
    ]
    pooled, mean = r2_score(test.y, guess), np.mean(each)
    for (metric, task), expected in {
        ("ve_pooled", None): pooled,
        ("nmse_pooled", None): 1 - pooled,
        ("ve_tasks", None): mean,
        ("nmse_tasks", None): 1 - mean,
        **{
            ("nmse_tasks", t): 1 - r2
            for t, r2 in zip(data.task_names, each, strict=True)
        },
    }.items():
        assert values.pop((metric, task)) == pytest.approx(expected)
    assert not values


def test_shared_regression_is_scored_column_by_column():
    data = MAKERS["sarcos"]()
    test = split_of("sarcos", data=data).test
    guess = test.y + np.random.default_rng(0).normal(size=test.y.shape)
    values = {(s.metric, s.task): s.value for s in score_tasks(data, test, guess)}
    each = r2_score(test.y, guess, multioutput="raw_values")
    assert values["ve_tasks", None] == pytest.approx(each.mean())
    for name, r2 in zip(data.task_names, each, strict=True):
        assert values["nmse_tasks", name] == pytest.approx(1 - r2)


@on_images
def test_classification_is_scored_by_the_area_of_each_task(name):
    data = MAKERS[name]()
    test = split_of(name, data=data).test
    guess = np.random.default_rng(0).normal(size=test.y.shape)
    columns = [
        (test.y[:, i], guess[:, i])
        if test.task is None
        else (test.y[test.task == task], guess[test.task == task])
        for i, task in enumerate(data.task_names)
    ]
    expected = [roc_auc_score(*column) for column in columns]
    overall, *each = score_tasks(data, test, guess)
    assert (overall.metric, overall.task) == ("auc", None)
    assert overall.value == pytest.approx(np.mean(expected))
    assert [score.task for score in each] == list(data.task_names)
    assert [score.value for score in each] == pytest.approx(expected)


# Protocols.


@pytest.mark.parametrize("name", PROTOCOLS)
def test_settings_are_json_and_tell_all_that_results_depend_on(name):
    protocol = find_protocol(name)
    changes = (
        {"tol": 1e-7},
        {"version": 2},
        {"most": 4},
    )
    texts = [
        json.dumps(replace(protocol, **change).settings(), allow_nan=False)
        for change in ({}, *changes)
    ]
    assert len(set(texts)) == len(texts)
    assert texts[0] == json.dumps(find_protocol(name).settings())


def test_settings_of_all_data_sets_differ():
    texts = {json.dumps(protocol.settings()) for protocol in PROTOCOLS.values()}
    assert len(texts) == len(PROTOCOLS)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_quick_is_smaller(name):
    full, quick = find_protocol(name), find_protocol(name, quick=True)
    assert quick.budget.settings < full.budget.settings
    assert quick.tol >= full.tol
    assert set(quick.sizes) <= set(full.sizes)


def test_quick_takes_three_images_per_class():
    split = make_split(find_protocol("orl", quick=True), MAKERS["orl"](), 0)
    assert len(split.train.y) == 3 * 5


def test_a_budget_counts_combinations():
    assert Budget((1.0, 2.0), (0.0,), (0.0, 1.0, 2.0)).settings == 6


@pytest.mark.usefixtures("small_sets")
def test_rows_are_read_once():
    assert load_rows("yale") is load_rows("yale")


# Real data.


def both_classes(rows):
    if rows.task is None:
        return np.all(rows.y.min(axis=0) < rows.y.max(axis=0))
    shown = set(zip(rows.task.tolist(), rows.y.tolist(), strict=True))
    return len(shown) == 2 * len(set(rows.task))


@pytest.mark.usefixtures("real_sets")
@pytest.mark.parametrize("name", ["school", "letter", "orl"])
def test_real_splits_hold_what_the_paper_says(name):
    data, train, test = drawn(name, data=load_rows(name))
    if name == "school":
        assert np.bincount(data.code[train]).tolist() == [20] * 139
        assert len(train) + len(test) == 15362
    else:
        assert not set(data.groups[train]) & set(data.groups[test])
        images = len(np.unique(data.sample[train])), len(np.unique(data.sample[test]))
        assert images[0] / sum(images) == pytest.approx(0.6, abs=0.02)


@pytest.mark.usefixtures("real_sets")
@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_smallest_real_size_trains_on_every_task_and_class(name):
    data, protocol = load_rows(name), PROTOCOLS[name]
    train, _ = protocol.draw(data, np.random.default_rng(9), min(protocol.sizes))
    rows = data.rows(train)
    if rows.task is None:
        assert rows.y.shape[1] == len(data.task_names)
    else:
        assert set(rows.task) == set(data.task_names)
    if data.kind == "classification":
        assert both_classes(rows)
