"""Tables out, piece by piece: CSV or Parquet, complete or not at all."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

from priormtl._files import write_aside
from priormtl.exceptions import unknown_name

__all__ = ["check_suffix", "write_pieces"]

WRITERS: dict[str, Callable[[Path, pa.Schema], Any]] = {
    ".csv": csv.CSVWriter,
    ".parquet": parquet.ParquetWriter,
}


def check_suffix(out: Path) -> None:
    """Fail before the work if the kind of a file is not known."""
    if out.suffix.lower() not in WRITERS:
        raise unknown_name("ending of --out", out.suffix, WRITERS)


@contextmanager
def write_pieces(out: Path) -> Iterator[Callable[[pa.Table], None]]:
    """Yield a function that writes tables, one below the other."""
    build = WRITERS[out.suffix.lower()]
    with write_aside(out) as temporary, ExitStack() as stack:
        opened: list[tuple[Any, pa.Schema]] = []

        def write(table: pa.Table) -> None:
            if not opened:
                schema = pa.schema([_plain(field) for field in table.schema])
                opened.append((stack.enter_context(build(temporary, schema)), schema))
            [(writer, schema)] = opened
            writer.write_table(table.cast(schema))

        try:
            yield write
        except pa.ArrowException as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise ValueError(f"{out} cannot be written: {reason}.") from None


def _plain(field: pa.Field) -> pa.Field:
    """Same column without a dictionary, which CSV does not know."""
    kind = field.type
    return field.with_type(kind.value_type) if pa.types.is_dictionary(kind) else field
