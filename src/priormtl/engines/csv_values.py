"""Values of CSV files that are not of the type that their column begins with."""

import re
from collections.abc import Sequence

from priormtl.exceptions import DataFileError

__all__ = ["explain_value"]

# Arrow guesses types from the first block of a file and keeps to them.
CONVERSION = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (\S+): "
    r"invalid value (.*)",
    re.DOTALL,
)
LONGEST_VALUE = 60


def explain_value(
    file: str, names: Sequence[str], error: Exception
) -> DataFileError | None:
    """Build the error that names column, row and value; None for other errors."""
    found = CONVERSION.search(str(error))
    if found is None or int(found[1]) >= len(names):
        return None
    row = "" if found[2] is None else f" in row {found[2]}"
    return DataFileError(
        f"{file}: column {names[int(found[1])]!r} must hold values of one type, "
        f"{found[3]} as at its beginning: got {found[4][:LONGEST_VALUE]}{row}; mend "
        "them, or store the table as Parquet."
    )
