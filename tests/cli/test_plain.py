import json

import pytest

from priormtl.cli.plain import to_json


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_numbers_that_json_does_not_know_become_null(number):
    value = {"a": [float(number), 1.5], "b": ({"c": float(number)}, 2)}
    assert json.loads(to_json(value)) == {"a": [None, 1.5], "b": [{"c": None}, 2]}


def test_other_values_stay():
    value = {"a": "größe", "b": None, "c": [True, 3, 0.1]}
    assert json.loads(to_json(value)) == value
    assert "größe" in to_json(value, ensure_ascii=False)
