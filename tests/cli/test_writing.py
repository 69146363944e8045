"""Tables written piece by piece."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from priormtl.cli.writing import check_suffix, write_pieces

PIECES = [
    pa.table({"id": pa.array([1, 2], pa.int32()), "t": pa.array(["u", "v"])}),
    pa.table({"id": [3], "t": pa.array(["ä,\n"]).dictionary_encode()}),
]
WHOLE = {"id": [1, 2, 3], "t": ["u", "v", "ä,\n"]}
MULTILINE = csv.ParseOptions(newlines_in_values=True)
READERS = {
    "a.csv": lambda path: csv.read_csv(path, parse_options=MULTILINE),
    "a.parquet": parquet.read_table,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("order", [1, -1])
def test_pieces_are_one_table(tmp_path, name, order):
    out = tmp_path / name
    with write_pieces(out) as write:
        for piece in PIECES[::order]:
            write(piece)
        assert not out.exists()
    found = READERS[name](out).sort_by("id")
    assert found.to_pydict() == WHOLE


def write_half(out):
    with write_pieces(out) as write:
        write(PIECES[0])
        raise KeyError


@pytest.mark.parametrize("name", READERS)
def test_a_failure_leaves_what_was_there(tmp_path, name):
    out = tmp_path / name
    out.write_text("old")
    with pytest.raises(KeyError):
        write_half(out)
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_what_a_format_does_not_know_is_a_sentence(tmp_path):
    out = tmp_path / "a.csv"
    with (
        pytest.raises(ValueError, match=r"a\.csv cannot be written"),
        write_pieces(out) as write,
    ):
        write(pa.table({"a": [[1, 2]]}))
    assert list(tmp_path.iterdir()) == []


def test_endings_are_checked():
    check_suffix(Path("a.CSV"))
    with pytest.raises(ValueError, match=r"unknown ending of --out '\.csvv'.*'\.csv'"):
        check_suffix(Path("a.csvv"))
