"""Recipes: plain values, and sentences about what cannot be."""

import json

import pytest

from priormtl.engines import Recipe

NAMES = ["school", "score", "age", "colour", "id"]


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe("school", "score"),
        Recipe(
            "school", "score", "w", ["age"], {"age": ["2", "1"]}, "mean", 5, "id", 7
        ),
    ],
)
def test_recipes_survive_json(recipe):
    assert Recipe.from_plain(json.loads(json.dumps(recipe.to_plain()))) == recipe
    assert hash(recipe) == hash(Recipe.from_plain(recipe.to_plain()))


def test_columns_of_a_table():
    recipe = Recipe("school", "score", key="id", folds=2)
    assert recipe.feature_columns(NAMES) == ("age", "colour")
    assert recipe.used_columns(NAMES) == ("school", "score", "id", "age", "colour")
    chosen = Recipe("school", "score", features=["id", "age"], key="id", folds=2)
    assert chosen.used_columns(NAMES) == ("school", "score", "id", "age")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"missing": "men"}, "unknown policy for missing values 'men'.*'mean'"),
        ({"folds": 1}, "folds must be a number from 2 on: got 1"),
        ({"folds": True}, "folds must be a number"),
        ({"features": "age"}, "features must be a list of columns: got the text"),
        ({"features": ["score"]}, "'score' comes twice"),
        ({"weight": "school"}, "'school' comes twice"),
        ({"key": "school"}, "key must be another column than task 'school'"),
    ],
)
def test_impossible_recipes_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Recipe("school", "score", **settings)


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (Recipe("scool", "score"), "unknown column 'scool'.*'school'"),
        (Recipe("school", "score", features=["ag"]), "unknown column 'ag'"),
        (Recipe("school", "score", categories={"hue": []}), "unknown column 'hue'"),
        (Recipe("school", "score", features=[]), "needs features"),
    ],
)
def test_unknown_columns_are_refused(recipe, message):
    with pytest.raises(ValueError, match=message):
        recipe.used_columns(NAMES)
