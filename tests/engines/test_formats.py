"""Tables in the formats that people have give the same rows as a CSV file."""

import io
import sqlite3
import sys
import zipfile
from contextlib import closing

import pandas as pd
import pytest

from priormtl.engines import open_source
from priormtl.exceptions import DataFileError

TABLE = pd.DataFrame(
    {"shop": ["a", "b", "a", "b"], "size": [1.5, 2.0, None, 4.0], "n": [1, 2, 3, 4]}
)


def write_sqlite(path, names=("sales",)):
    with closing(sqlite3.connect(path)) as base:
        for name in names:
            TABLE.to_sql(name, base, index=False)
        base.commit()


def write_zip(path, names=("sales.csv",)):
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, TABLE.to_csv(index=False))


WRITERS = {
    "t.xlsx": lambda path: TABLE.to_excel(path, index=False),
    "t.dta": lambda path: TABLE.to_stata(path, write_index=False),
    "t.jsonl": lambda path: TABLE.to_json(path, orient="records", lines=True),
    "t.json": lambda path: TABLE.to_json(path, orient="records"),
    "t.db": write_sqlite,
    "t.zip": write_zip,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_rows(name, tmp_path):
    path = tmp_path / name
    WRITERS[name](path)
    found = open_source(path).dataset.to_table().to_pandas()
    pd.testing.assert_frame_equal(found, TABLE, check_dtype=False)


CONTENTS = {
    "CSV": TABLE.to_csv(index=False, sep=";"),
    "JSON lines": TABLE.to_json(orient="records", lines=True),
}


@pytest.mark.parametrize("text", CONTENTS.values(), ids=CONTENTS)
def test_standard_input_is_a_table(text, monkeypatch):
    content = io.BytesIO(text.encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))
    found = open_source("-").dataset.to_table().to_pandas()
    pd.testing.assert_frame_equal(found, TABLE, check_dtype=False)


def test_a_table_of_several_is_named_behind_the_path(tmp_path):
    base, archive = tmp_path / "t.db", tmp_path / "t.zip"
    write_sqlite(base, ("sales", "stock"))
    write_zip(archive, ("sales.csv", "more/stock.csv"))
    for path, inner in ((base, "stock"), (archive, "more/stock.csv")):
        with pytest.raises(DataFileError, match=f"such as {path.name}#sales"):
            open_source(path)
        assert open_source(f"{path}#{inner}").dataset.count_rows() == len(TABLE)
    address = f"sqlite:///{base}#stock"
    assert open_source(address).dataset.count_rows() == len(TABLE)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.xlsx", b"PK\x03\x04 not a book", "cannot be read"),
        ("t.db", b"not a database, though long enough to be one" * 9, "cannot be read"),
        ("t.zip", b"no archive", "cannot be read"),
        ("t.xlsx", b"", "is empty"),
        ("t.jsonl", b"[1, 2", "cannot be read"),
        ("t.pkl", b"\x80\x04", "save the table as CSV"),
    ],
)
def test_a_damaged_file_is_named_in_one_sentence(name, content, words, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=words) as caught:
        open_source(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_archive_without_tables_says_what_it_has(tmp_path):
    write_zip(tmp_path / "t.zip", ("book.xlsx",))
    with pytest.raises(DataFileError, match=r"JSON lines file: it has book\.xlsx"):
        open_source(tmp_path / "t.zip")


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("https://host/t.csv", DataFileError, "downloaded first"),
        ("t.sqlite::sales", FileNotFoundError, "is not a file"),
        ("sqlite:///absent.db", FileNotFoundError, r"absent\.db is not a file"),
    ],
)
def test_what_is_no_file_is_said(name, error, words):
    with pytest.raises(error, match=words):
        open_source(name)


def test_an_address_of_a_database_shows_no_password():
    with pytest.raises(DataFileError, match="read_sql") as caught:
        open_source("postgresql://me:secret@host/base")
    assert "secret" not in str(caught.value)
