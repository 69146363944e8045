"""What is read from a model: coefficients, names, order and unit."""

import numpy as np
import pytest

from plotted_models import fitted, random_coef, related, with_coef
from priormtl import MultiTaskClassifier, TaskPrior
from priormtl.data import pooled_scale
from priormtl.plotting.learned import find_places, rank_rows, read_model


def test_coefficients_are_the_models():
    model = fitted()
    assert np.array_equal(read_model(model).P, model.coef_.T)


def test_deviations_take_the_unit_of_features_away():
    X, y, task = related()
    scale = np.array([1.0, 10.0, 0.1, 1.0, 1.0, 5.0])
    model = fitted(standardize=True)
    rescaled = type(model)(**model.get_params()).fit(X * scale, y, task=task)
    one, other = read_model(model, "deviation"), read_model(rescaled, "deviation")
    assert np.allclose(one.P, other.P, atol=1e-4)
    assert np.allclose(one.P.T, model.coef_ * pooled_scale(model.statistics_))


def test_rows_are_ranked_by_size_and_zeros_left_out():
    P = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, -3.0], [1.0, 0.0]])
    assert rank_rows(P).tolist() == [2, 1, 3]


def test_tasks_stand_as_their_chain_has_them():
    model = with_coef(random_coef(3, 2), tasks=["a", "b", "c"])
    assert read_model(model).order.tolist() == [0, 1, 2]
    assert not read_model(model).ordered
    model.task_prior = TaskPrior.chain(order=["c", "a", "b"])
    assert read_model(model).order.tolist() == [2, 0, 1]
    assert read_model(model).ordered


@pytest.mark.parametrize(
    ("attributes", "outcome"),
    [
        ({}, "target"),
        ({"classes_": [0, 1], "loss": "logistic"}, "log-odds"),
        ({"classes_": [0, 1], "loss": "squared"}, "score"),
    ],
)
def test_the_unit_is_what_a_coefficient_changes(attributes, outcome):
    unit = read_model(with_coef([[1.0]], **attributes)).unit
    assert unit == f"{outcome} per unit of the feature"


def test_unnamed_features_are_numbered_and_vectors_are_one_task():
    learned = read_model(with_coef([[1.0, 2.0]]))
    assert learned.features == ("x0", "x1")
    learned = read_model(type("Plain", (), {"coef_": np.ones(3)})())
    assert (learned.P.shape, learned.tasks) == ((3, 1), (0,))


def test_names_win_over_positions():
    known = ("b", "a", 0)
    assert find_places("feature", ["a", 0, 1], known).tolist() == [1, 2, 1]
    assert find_places("feature", "a", known).tolist() == [1]
    assert find_places("feature", np.array([1]), known).tolist() == [1]


@pytest.mark.parametrize("wanted", [["heigth"], [7], [-1]])
def test_unknown_names_are_refused(wanted):
    with pytest.raises(ValueError, match="unknown feature"):
        find_places("feature", wanted, ("height", "age"))


def test_integer_task_labels_are_no_positions():
    with pytest.raises(ValueError, match="unknown task 0"):
        read_model(with_coef([[1.0]], tasks=[5])).find_tasks([0])


def test_an_unfitted_model_is_refused():
    with pytest.raises(TypeError, match="must be a fitted linear model"):
        read_model(MultiTaskClassifier())


def test_what_is_not_known_is_not_guessed():
    with pytest.raises(ValueError, match="must hold statistics_"):
        read_model(with_coef([[1.0]]), "deviation")
    with pytest.raises(ValueError, match='per must be "unit" or "deviation"'):
        read_model(with_coef([[1.0]]), "sd")
    with pytest.raises(ValueError, match="Did you mean 'deviation'"):
        read_model(with_coef([[1.0]]), "deviations")
