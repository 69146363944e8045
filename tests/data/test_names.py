"""Labels survive JSON, or say that they do not; features always have a name."""

import json
from datetime import UTC, date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from priormtl.data import from_plain, name_features, to_plain, unnamed_feature

LAW = settings(max_examples=100, deadline=None, derandomize=True, database=None)
LABELS = st.one_of(
    st.text(),
    st.integers(),
    st.floats(allow_nan=False),
    st.booleans(),
    st.dates(),
    st.datetimes(),
    st.just(datetime(2024, 2, 29, 12, tzinfo=UTC)),
)


@LAW
@given(st.lists(LABELS))
def test_labels_come_back_with_their_types(labels):
    found = from_plain(json.loads(json.dumps(to_plain(labels))))
    assert found == tuple(labels)
    assert [type(label) for label in found] == [type(label) for label in labels]


def test_a_date_is_not_a_datetime():
    day = date(2024, 1, 1)
    assert type(from_plain(to_plain([day]))[0]) is date


@pytest.mark.parametrize("label", [(1, 2), None, b"a", 1j, frozenset()], ids=repr)
def test_other_labels_cannot_be_saved(label):
    with pytest.raises(ValueError, match="must be text, numbers or dates to be saved"):
        to_plain(["a", label])


@pytest.mark.parametrize(
    "value", [None, [], {}, {"date": "2024-01-01", "x": 1}, {"code": "1"}], ids=repr
)
def test_values_that_are_no_labels_are_refused(value):
    with pytest.raises(TypeError, match="not a label"):
        from_plain([value])


@pytest.mark.parametrize("value", ["date", "2024-13-01", ""])
def test_dates_that_do_not_exist_are_refused(value):
    with pytest.raises(ValueError, match=r"isoformat|month"):
        from_plain([{"date": value}])


@pytest.mark.parametrize("values", [None, "ab", {"a": 1}, 3], ids=repr)
def test_labels_must_be_a_list(values):
    with pytest.raises(TypeError, match="labels must be a list"):
        from_plain(values)


def test_features_without_names_are_numbered_as_by_scikit_learn():
    scaler = StandardScaler().fit([[0.0, 1.0], [1.0, 0.0]])
    assert name_features(None, 2) == tuple(scaler.get_feature_names_out())
    assert unnamed_feature(7) == "x7"
    assert name_features(None, 0) == ()


def test_names_that_are_known_stay():
    assert name_features(("é", "b"), 2) == ("é", "b")
