"""Spill: rows laid aside on disk in several heaps, which no end of the process leaves.

Its files have no names: the system frees them when they are closed, or when the process
dies. Each holds pieces of rows, one after the other, as Arrow streams with their
lengths before them; so pieces may differ in their types.
"""

import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

__all__ = ["Spill"]

LENGTH = struct.Struct("<Q")


class Spill:
    """Heaps of rows in a folder."""

    def __init__(self, folder: str | os.PathLike[str], heaps: int) -> None:
        self.folder, self.heaps = Path(folder), heaps
        self.size = 0  # bytes written
        with ExitStack() as stack:
            self._files: list[IO[bytes]] = [
                stack.enter_context(tempfile.TemporaryFile(dir=folder))
                for _ in range(heaps)
            ]
            self._opened = stack.pop_all()

    def write(self, heap: int, table: pa.Table) -> None:
        """Lay some rows aside."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        content = sink.getvalue()
        try:
            self._files[heap].write(LENGTH.pack(content.size))
            self._files[heap].write(content)
        except OSError as error:
            raise OSError(
                error.errno,
                f"rows cannot be laid aside, {self.size / 1e9:.3g} GB are already: "
                f"{error.strerror}; name a folder on a larger disk",
                str(self.folder),
            ) from None
        self.size += LENGTH.size + content.size

    def read(self, heap: int) -> Iterator[pa.Table]:
        """Rows of a heap, from its beginning, piece by piece."""
        file = self._files[heap]
        file.seek(0)
        while header := file.read(LENGTH.size):
            content = file.read(*LENGTH.unpack(header))
            yield pa.ipc.open_stream(pa.py_buffer(content)).read_all()

    def drop(self, heap: int) -> None:
        """Give a heap's place on disk back."""
        self._files[heap].close()

    def close(self) -> None:
        """Give all places back."""
        self._opened.close()

    def __enter__(self) -> "Spill":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
