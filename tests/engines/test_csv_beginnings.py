"""Files that are no CSV files of ours are told what they are."""

import gzip

import pytest

from priormtl.engines import open_source
from priormtl.engines.csv_beginnings import refuse_other_kinds
from priormtl.exceptions import DataFileError

ROWS = "t,größe,y\na,1.5,2\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (ROWS.replace(",", ";").encode(), ["commas", "semicolons", "sep=';'"]),
        (ROWS.replace(",", "\t").encode(), ["commas", "tabs", r"sep='\t'"]),
        (ROWS.replace(",", "|").encode(), ["commas", "bars"]),
        (ROWS.encode("utf-16"), ["UTF-8", "UTF-16"]),
        (ROWS.encode("utf-16-le"), ["UTF-8", "zero bytes"]),
        (b"PK\x03\x04" + ROWS.encode(), ["archive", "save it as CSV"]),
    ],
)
@pytest.mark.parametrize("name", ["a.csv", "a.txt"])
def test_other_kinds_are_named(tmp_path, content, words, name):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(DataFileError, match=name) as caught:
        open_source(file)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "content", [ROWS, ROWS.replace("\n", "\r\n"), "\ufeff" + ROWS, 't,"a;b",y\na,1,2\n']
)
def test_ours_are_read(tmp_path, content):
    file = tmp_path / "a.csv"
    file.write_text(content, encoding="utf-8", newline="")
    assert open_source(file).columns[::2] == ["t", "y"]


def test_compressed_files_are_left_to_arrow(tmp_path):
    file = tmp_path / "a.csv.gz"
    file.write_bytes(gzip.compress(ROWS.encode()))
    refuse_other_kinds(file)
    assert open_source(file).columns[::2] == ["t", "y"]


def test_one_column_and_no_line_are_not_judged(tmp_path):
    file = tmp_path / "a.csv"
    for content in ("x\n1\n", "\n"):
        file.write_text(content)
        refuse_other_kinds(file)
