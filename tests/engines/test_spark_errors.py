"""Of many lines, the one sentence that helps."""

import pytest

from priormtl.engines import spark_errors
from priormtl.engines.spark_errors import refuse_large, say_first_line, say_plainly
from priormtl.exceptions import DataFileError, ModelFileError

HEAD = "An error occurred while calling o153.collectToPython.\n: org.x.SparkException: "
FILE = "[FAILED_READ_FILE] Encountered error while reading file file:///a%20b/1.parquet"
TRACE = "\n\tat org.apache.spark.sql.Errors$.fail(Errors.scala:920)\n"
CASES = {
    "own": (
        "Traceback\n  x\npriormtl.exceptions.DataFileError: partition 4: no.\n\tat",
        DataFileError,
        r"^partition 4: no\.$",
    ),
    "damaged": (
        "x\npriormtl.exceptions.ModelFileError: statistics did not arrive as sent: a.",
        ModelFileError,
        r"^statistics did not arrive as sent: a\.$",
    ),
    "cut off": (
        f"{FILE}.  SQLSTATE: KD001{TRACE}Caused by: a.b.C$D: first\n"
        "Caused by: java.lang.RuntimeException: it is not a Parquet file.\n\tat x",
        DataFileError,
        r"^file:///a%20b/1\.parquet cannot be read: it is not a Parquet file\.$",
    ),
    "gone": (
        f"{FILE}. File does not exist. It is possible.\nYou can. SQLSTATE: KD001",
        DataFileError,
        r"1\.parquet cannot be read: File does not exist\. It is possible\.$",
    ),
    "other types": (
        f"{FILE}. Data type mismatches. SQLSTATE: KD001{TRACE}",
        DataFileError,
        r"1\.parquet cannot be read: Data type mismatches\.$",
    ),
    "no reason": (
        f"Error while reading file s3://b/1.parquet.{TRACE}",
        DataFileError,
        r"^s3://b/1\.parquet cannot be read: .*",
    ),
    "cut off, 3.5": (
        f"{HEAD}java.lang.RuntimeException: file:/a/1.parquet is not a Parquet file. "
        f"Expected magic number at tail, but found [1]{TRACE}",
        DataFileError,
        r"^file:/a/1\.parquet cannot be read: is not a Parquet file\.$",
    ),
    "gone, 3.5": (
        f"{HEAD}a.b.C: File file:/a/1.parquet does not exist\nIt is possible{TRACE}",
        DataFileError,
        r"^file:/a/1\.parquet cannot be read: does not exist\.$",
    ),
    "other types, 3.5": (
        f"{HEAD}Parquet column cannot be converted in file file:///a/1.parquet. "
        f"Column: [size], Expected: double, Found: BINARY.{TRACE}",
        DataFileError,
        r"1\.parquet cannot be read: Column: \[size\], Expected: .*: BINARY\.$",
    ),
    "no package": (
        "ModuleNotFoundError: No module named 'priormtl'",
        ImportError,
        "executors of Spark must find priormtl",
    ),
    "full driver": (
        "Total size of results is bigger than spark.driver.maxResultSize (1.0 GiB)",
        ValueError,
        r"raise spark\.driver\.maxResultSize",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_helps_is_said_in_one_sentence(case):
    told, kind, message = CASES[case]
    with pytest.raises(kind, match=message) as caught, say_plainly():
        raise RuntimeError(HEAD + told)
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_all_else_passes():
    error = RuntimeError("no executor is left")
    with pytest.raises(RuntimeError) as caught, say_plainly():
        raise error
    assert caught.value is error


def test_statistics_beyond_the_largest_value_are_refused():
    refuse_large(spark_errors.LARGEST, (500, 1000))
    message = r"1000 tasks over 500 features .* 2\.15 GB .* got 3\.00 GB; use fewer"
    with pytest.raises(DataFileError, match=message):
        refuse_large(3 * 10**9, (500, 1000))


def test_first_lines_are_short():
    assert say_first_line(ValueError("  a. \nb")) == "a"
    assert say_first_line(ValueError("")) == "ValueError"
    assert len(say_first_line(ValueError("a" * 999))) == 300
