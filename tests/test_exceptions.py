"""Errors say what is known and what may have been meant."""

import pytest

from priormtl.exceptions import (
    DataFileError,
    MissingDataError,
    ModelFileError,
    absent_name,
    suggest,
    suggest_file,
    unknown_name,
    unknown_names,
)


def test_an_unknown_name_is_answered_with_the_known_ones():
    error = unknown_name("task", "c", ["a", "b"])
    assert isinstance(error, ValueError)
    assert str(error) == "unknown task 'c'; known: 'a', 'b'."


def test_a_misspelled_name_is_answered_with_the_near_ones():
    message = str(unknown_name("feature", "math", ["maths", "art", "maths2"]))
    assert message.endswith("Did you mean 'maths' or 'maths2'?")


@pytest.mark.parametrize(("name", "known"), [("1", 1), (1, "1"), (2.0, "2.0")])
def test_the_same_name_of_another_type_is_suggested(name, known):
    assert f"Did you mean {known!r}?" in str(unknown_name("task", name, [known, "z"]))


@pytest.mark.parametrize("name", ["SCORE", "Score", " score "])
def test_capitals_and_blanks_do_not_hide_what_was_meant(name):
    assert suggest([name], ["age", "score"]) == " Did you mean 'score'?"
    assert suggest(["T"], ["x", "t"]) == " Did you mean 't'?"


def test_the_beginning_of_a_long_name_is_enough():
    known = ["priormtl", "ridge-single", "ridge-pooled"]
    assert suggest(["ridge"], known) == (
        " Did you mean 'ridge-single' or 'ridge-pooled'?"
    )
    assert "'ridge-single'" in suggest(["rigde"], known)
    assert suggest(["mai"], ["maintained"]) == ""  # too short to tell


def test_many_known_names_are_counted_rather_than_listed():
    message = str(unknown_name("task", "x", range(1000)))
    assert "known: 0, 1, 2, 3, 4, 5, 6, 7, … (1000 in all)." in message
    assert len(message) < 200


def test_a_huge_name_is_compared_by_its_beginning_only():
    message = str(unknown_name("task", "a" * 10**5, ["a" * 10**5 + "b"]))
    assert "Did you mean" in message


def test_no_names_known_is_still_a_sentence():
    assert str(unknown_name("task", "x", [])) == "unknown task 'x'; known: ."


def test_several_unknown_names_are_one_sentence():
    assert str(unknown_names("task", ["c"], "ab")) == str(
        unknown_name("task", "c", "ab")
    )
    message = str(unknown_names("task", ["maths2", "c"], ["maths", "art"]))
    assert message.startswith("unknown tasks 'maths2', 'c'; known: 'maths', 'art'.")
    assert message.endswith("Did you mean 'maths'?")
    assert "(20 in all); known: 'a'." in str(unknown_names("x", range(20), "a"))


def test_an_absent_name_is_answered_with_those_that_are_there():
    error = absent_name("a table lacks the column", "colour", ["color", "size"])
    assert str(error) == (
        "a table lacks the column 'colour'; it has: 'color', 'size'. "
        "Did you mean 'color'?"
    )


def test_only_near_names_are_suggested():
    assert suggest(["ista-revers"], ["ista-reverse", "gd"]) == (
        " Did you mean 'ista-reverse'?"
    )
    assert suggest(["x"], ["fista", "gd"]) == ""


def test_a_bad_file_is_a_value_error():
    assert issubclass(ModelFileError, ValueError)
    assert issubclass(DataFileError, ValueError)


def test_missing_data_are_a_missing_file():
    error = MissingDataError("x.npz is not in the folder y.")
    assert isinstance(error, FileNotFoundError)
    assert str(error) == "x.npz is not in the folder y."


def test_files_beside_are_suggested(tmp_path):
    for name in ("patients.csv", "patients.html", "zoo.csv"):
        (tmp_path / name).touch()
    assert suggest_file(tmp_path / "patents.csv") == " Did you mean 'patients.csv'?"
    assert suggest_file(tmp_path / "patients") == (
        " Did you mean 'patients.csv' or 'patients.html'?"
    )
    assert suggest_file(tmp_path / "xyz.csv") == ""
    assert suggest_file(tmp_path / "nowhere" / "patients.csv") == ""
