"""Trials: rows are split fairly, and what is printed is what was scored."""

import numpy as np
import pytest

from priormtl.cli.demonstration.digits import pose_digits
from priormtl.cli.demonstration.patients import pose_patients
from priormtl.cli.demonstration.trials import (
    TASK,
    Trial,
    spell_scores,
    split,
    tabulate,
)


def test_every_kind_gives_as_many_rows_and_no_row_is_in_both():
    kind = np.repeat([0, 1, 2], [20, 10, 30])
    X = np.arange(60.0)[:, np.newaxis]
    train, test = split(X, X[:, 0], kind, 6, seed=1)
    assert np.bincount(kind[train.X[:, 0].astype(int)]).tolist() == [6, 6, 6]
    assert sorted([*train.y, *test.y]) == list(range(60))
    assert np.bincount(train.fold).tolist() == [6, 6, 6]
    again, _ = split(X, X[:, 0], kind, 6, seed=2)
    assert not np.array_equal(again.X, train.X)


@pytest.mark.parametrize("pose", [pose_digits, pose_patients])
def test_models_of_a_part_differ_in_their_priors_alone(pose):
    part = pose()
    plain, *others = (model.get_params() for model in part.models.values())
    for other in others:
        changed = {name for name in plain if repr(plain[name]) != repr(other[name])}
        assert changed <= {"thetas", "epsilons", "feature_prior"}
        assert set(plain["thetas"]) <= set(other["thetas"])
    train, test = part.draw(part.size, 0)
    assert set(train.X[:, TASK]) == set(test.X[:, TASK])


def test_a_table_shows_scores_choices_and_the_largest_gap():
    part = pose_patients()
    trials = [Trial(0.5, {"theta": 1.0}, 1e-8, 0.25), Trial(0.7, {"theta": 0}, 2e-7, 1)]
    table = tabulate(part, {"both": trials})
    (row,) = zip(*(column.cells for column in table.columns), strict=True)
    assert row == ("both", "0.600 ± 0.141", "1, 0", "–, –", "2e-07", "1.2")
    assert spell_scores([1.0, 3.0]) == "2.000 ± 1.414"
