"""The beginning of CSV files: what they are instead, where they are none of ours."""

from pathlib import Path

from priormtl.exceptions import DataFileError

__all__ = ["refuse_other_kinds"]

BYTES_LOOKED_AT = 65_536
COMPRESSED = (".gz", ".bz2")
ARCHIVE = b"PK\x03\x04"
UTF16 = (b"\xff\xfe", b"\xfe\xff")
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def refuse_other_kinds(file: Path) -> None:
    """Fail where a file is a workbook, in UTF-16, or separated otherwise."""
    if file.suffix.lower() in COMPRESSED:
        return
    with file.open("rb") as content:
        start = content.read(BYTES_LOOKED_AT)
    if start.startswith(ARCHIVE):
        raise DataFileError(
            f"{file} must be a CSV, Parquet or Arrow file: it is an archive, such as a "
            "workbook of a spreadsheet; save it as CSV."
        )
    if start.startswith(UTF16) or b"\0" in start:
        raise DataFileError(
            f"{file} must be text in UTF-8 to be a CSV file: it has zero bytes or the "
            "mark of UTF-16; save it as UTF-8."
        )
    _refuse_separator(file, start.decode("utf-8", errors="replace"))


def _refuse_separator(file: Path, text: str) -> None:
    """Fail where names in the first line stand between something else than commas."""
    header = next(iter(text.splitlines()), "")
    if "," in header:
        return
    for separator, word in SEPARATORS.items():
        if separator in header:
            raise DataFileError(
                f"{file} must have commas between its columns: its first line has "
                f"{word}; write it anew (pandas: read_csv(file, sep={separator!r}), "
                "with decimal=',' where numbers have commas, then to_csv(file, "
                "index=False))."
            )
