"""Errors say what is known and what may have been meant."""

import pytest

from priormtl.exceptions import (
    DataFileError,
    MissingDataError,
    ModelFileError,
    unknown_name,
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


def test_many_known_names_are_counted_rather_than_listed():
    message = str(unknown_name("task", "x", range(1000)))
    assert "known: 0, 1, 2, 3, 4, 5, 6, 7, … (1000 in all)." in message
    assert len(message) < 200


def test_a_huge_name_is_compared_by_its_beginning_only():
    message = str(unknown_name("task", "a" * 10**5, ["a" * 10**5 + "b"]))
    assert "Did you mean" in message


def test_no_names_known_is_still_a_sentence():
    assert str(unknown_name("task", "x", [])) == "unknown task 'x'; known: ."


def test_a_bad_file_is_a_value_error():
    assert issubclass(ModelFileError, ValueError)
    assert issubclass(DataFileError, ValueError)


def test_missing_data_are_a_missing_file():
    error = MissingDataError("x.npz is not in the folder y.")
    assert isinstance(error, FileNotFoundError)
    assert str(error) == "x.npz is not in the folder y."
