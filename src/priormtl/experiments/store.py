"""Store: finished units of work as Parquet files, under the digest of their settings.

A unit's file is written whole or not at all, so that a killed run loses nothing that
was finished, and two runs in one folder do no harm. The name of a file is the digest of
everything its rows depend on: a changed setting makes another name, and no file is ever
out of date.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from priormtl._files import remove_leftovers, write_whole

__all__ = ["Store", "digest_settings", "write_table"]

DIGEST_BYTES = 16
SETTINGS = b"priormtl"


@dataclass(frozen=True)
class Store:
    """Folder of finished units."""

    folder: Path

    def path(self, settings: Mapping[str, Any]) -> Path:
        """Where the rows of a unit with these settings lie."""
        return self.folder / f"{digest_settings(settings)}.parquet"

    def read(self, settings: Mapping[str, Any]) -> pa.Table | None:
        """Rows of a finished unit; None where it is not finished."""
        path = self.path(settings)
        try:
            table = pq.read_table(path)
        except FileNotFoundError:
            return None
        except (pa.ArrowInvalid, OSError):
            # Not written by us, or damaged since: to be computed anew.
            return None
        return table.replace_schema_metadata(None)

    def write(self, settings: Mapping[str, Any], table: pa.Table) -> None:
        """Keep the rows of a finished unit."""
        self.folder.mkdir(parents=True, exist_ok=True)
        noted = table.replace_schema_metadata({SETTINGS: canonical(settings)})
        write_table(self.path(settings), noted)

    def tidy(self) -> None:
        """Remove what a killed run was just writing."""
        remove_leftovers(self.folder)

    def forget(self, settings: Mapping[str, Any]) -> None:
        """Let a unit be computed anew."""
        self.path(settings).unlink(missing_ok=True)


def write_table(path: Path, table: pa.Table) -> None:
    """Write rows as Parquet, whole or not at all."""
    buffer = BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    write_whole(path, buffer.getbuffer())


def canonical(settings: Mapping[str, Any]) -> str:
    """The one way to spell settings."""
    return json.dumps(settings, sort_keys=True, allow_nan=False)


def digest_settings(settings: Mapping[str, Any]) -> str:
    """Name of a unit with these settings."""
    text = canonical(settings).encode()
    return blake2b(text, digest_size=DIGEST_BYTES).hexdigest()
