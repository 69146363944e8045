"""A value of another type, far down a file, is named with its column."""

import pyarrow as pa
import pytest

from priormtl.engines import summarize
from priormtl.engines.csv_values import explain_value
from priormtl.exceptions import DataFileError


def test_column_and_value_are_named(tmp_path):
    file = tmp_path / "late.csv"
    rows = "a,1.25,2.5\n" * 150_000  # more than Arrow looks at
    file.write_text(f"t,size,y\n{rows}a,oops,1\n")
    with pytest.raises(DataFileError, match=r"late\.csv: column 'size' must") as caught:
        summarize(file, task="t", target="y")
    assert "got 'oops'" in str(caught.value)
    assert "CSV" not in str(caught.value).replace("late.csv", "")


def test_other_errors_are_left_alone():
    assert explain_value("a.csv", ["x"], pa.ArrowInvalid("Expected 3 columns")) is None
    text = "In CSV column #3: CSV conversion error to double: invalid value 'q'"
    assert explain_value("a.csv", ["x"], pa.ArrowInvalid(text)) is None
    found = explain_value("a.csv", list("abcd"), pa.ArrowInvalid(text))
    assert "column 'd' must hold values of one type, double" in str(found)
    assert " in row" not in str(found)
