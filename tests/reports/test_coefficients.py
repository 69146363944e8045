"""The file of all coefficients: exact, in either format."""

import csv

import numpy as np
import pytest
from pyarrow import parquet

from priormtl.reports.coefficients import save_coefficients
from reported_models import learned_of

COEF = np.array([[0.1, -1e300], [np.pi, 0.0]])
NAMES = (['comma, "quote"', "é\nline"], ["a", "b"])


def test_csv_holds_every_digit(tmp_path):
    save_coefficients(learned_of(COEF, *NAMES), tmp_path / "c.csv")
    with (tmp_path / "c.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = list(csv.reader(file))
    assert head == ["feature", "a", "b"]
    assert [row[0] for row in rows] == NAMES[0]
    assert np.array_equal(np.array([row[1:] for row in rows], float), COEF.T)


def test_parquet_holds_the_same(tmp_path):
    save_coefficients(learned_of(COEF, *NAMES), tmp_path / "c.parquet")
    table = parquet.read_table(tmp_path / "c.parquet")
    assert table.column_names == ["feature", "a", "b"]
    assert np.array_equal(np.stack([table["a"], table["b"]]), COEF)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"ends in .csv or .parquet"):
        save_coefficients(learned_of(COEF), tmp_path / "c.xlsx")
    assert not list(tmp_path.iterdir())
