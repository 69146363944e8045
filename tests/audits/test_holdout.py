import numpy as np
import pytest
from sklearn.metrics import log_loss

from planted_relations import plant
from priormtl import MultiTaskClassifier, MultiTaskRegressor
from priormtl.audits.holdout import Holdout, deal_splits, hold_out


def hold(planted, model, cv=3, n_repeats=1, lams=(2.0,)):
    table = model._read_table(planted.X, planted.y, planted.task, None, reset=True)
    splits, rounds = deal_splits(
        cv,
        table,
        planted.X,
        planted.y,
        by_class=False,
        n_repeats=n_repeats,
        random_state=0,
    )
    return splits, hold_out(model, table, splits, rounds, np.array(lams), chosen=False)


def test_errors_are_those_of_fits_on_the_training_rows():
    planted = plant(0)
    model = MultiTaskRegressor(2.0, 3.0, feature_prior=planted.prior, standardize=True)
    splits, found = hold(planted, model)
    benefit = found.at(2.0)
    for theta, errors in ((3.0, benefit.with_prior), (0.0, benefit.without_prior)):
        model.set_params(theta=theta)
        for split, error in zip(splits, errors, strict=True):
            rows = split.train
            model.fit(planted.X[rows], planted.y[rows], task=planted.task[rows])
            rows = split.test
            predicted = model.predict(planted.X[rows], task=planted.task[rows])
            assert np.mean((predicted - planted.y[rows]) ** 2) == pytest.approx(
                error, rel=1e-3
            )


def test_classes_are_judged_by_log_loss():
    planted = plant(1, n=60, classification=True)
    model = MultiTaskClassifier(2.0, 3.0, feature_prior=planted.prior)
    splits, found = hold(planted, model)
    train, test = splits[0]
    model.fit(planted.X[train], planted.y[train], task=planted.task[train])
    shares = model.predict_proba(planted.X[test], task=planted.task[test])
    expected = log_loss(planted.y[test], shares, labels=["no", "yes"])
    assert found.metric == "log loss"
    assert found.at(2.0).with_prior[0] == pytest.approx(expected, rel=1e-3)


def test_tasks_add_up_to_all():
    planted = plant(2)
    model = MultiTaskRegressor(2.0, 3.0, feature_prior=planted.prior)
    _, found = hold(planted, model, lams=(2.0, 0.5))
    total = found.with_prior.sum(axis=2) / found.weight.sum(axis=1)[:, np.newaxis]
    assert found.at(0.5).with_prior == pytest.approx(total[:, 1])
    assert found.test_to_train == pytest.approx(0.5, abs=0.05)


def test_own_lams_are_chosen_on_other_folds_of_the_round():
    # Errors (split, lam): the lam that is best on a split itself is worst elsewhere.
    errors = np.array([[0.0, 5.0], [4.0, 1.0], [4.0, 1.0], [0.0, 9.0], [0.0, 9.0]])
    both = errors[:, :, np.newaxis]
    rounds = np.array([0, 0, 0, 1, 1])
    found = Holdout(
        "e",
        np.array([1.0, 2.0]),
        both,
        both,
        np.ones((5, 1)),
        rounds,
        0.25,
        ("t",),
        False,
    )
    assert found.at_own().lams_with.tolist() == [2.0, 1.0, 1.0, 1.0, 1.0]


def test_rounds_hold_out_every_row_once():
    planted = plant(3)
    model = MultiTaskRegressor(2.0, 3.0, feature_prior=planted.prior)
    splits, found = hold(planted, model, n_repeats=2)
    assert found.rounds.tolist() == [0, 0, 0, 1, 1, 1]
    for part in (splits[:3], splits[3:]):
        rows = np.concatenate([split.test for split in part])
        assert np.array_equal(np.sort(rows), np.arange(len(planted.y)))
