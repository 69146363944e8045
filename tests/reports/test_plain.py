"""JSON: valid everywhere, and the same content as the page's."""

import json
from base64 import b64decode

import numpy as np

from priormtl.reports import report
from priormtl.reports.plain import pack_numbers, to_json, to_page_data
from reported_models import model_of, tuned_model


def unpack(text):
    values = np.frombuffer(b64decode(text), "<f8")
    return [None if not np.isfinite(value) else value for value in values.tolist()]


def test_packed_numbers_are_exact():
    values = np.array([0.1, -1e300, np.nan, 5e-324])
    assert np.array_equal(np.frombuffer(b64decode(pack_numbers(values))), values, True)


def test_page_and_json_hold_the_same():
    content = report(tuned_model()).content
    plain, page = json.loads(to_json(content)), json.loads(to_page_data(content))
    for table in page["tables"].values():
        for column in table["columns"]:
            if not column["text"]:
                column["values"] = unpack(column["values"])
    block = page.pop("coefficients")
    told = plain.pop("coefficients")
    assert page == plain
    assert unpack(block["values"]) == [v for row in told["values"] for v in row]
    assert block["shape"] == [len(told["features"]), len(told["tasks"])]


def test_coefficients_are_the_models():
    model = tuned_model()
    told = json.loads(report(model).json())["coefficients"]
    names = model.feature_names_in_.tolist()
    place = [names.index(name) for name in told["features"]]
    assert np.array_equal(np.array(told["values"]), model.coef_[:, place].T)
    assert told["tasks"] == model.tasks_.tolist()


def test_unknown_numbers_are_null():
    text = report(model_of(np.zeros((2, 2)), objective_=0.0, dual_gap_=1.0)).json()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert json.loads(text)["tables"]["features"]["columns"][5]["values"] == [None] * 2


def test_page_data_hold_no_markup():
    name = "</script><script>alert(1)</script>&amp;"
    content = report(model_of([[1.0]], [name])).content
    text = to_page_data(content)
    assert not set("<>&") & set(text)
    told = json.loads(text)["tables"]["features"]["columns"][0]["values"]
    assert told == [name]
