"""Statistics of rows that do not fit into memory: in files, in batches, on clusters."""

try:
    import pyarrow as _pyarrow  # noqa: F401
except ImportError:
    raise ImportError(
        "priormtl.engines needs pyarrow: pip install 'priormtl[arrow]'", name="pyarrow"
    ) from None

from priormtl.engines import dask, spark
from priormtl.engines.batches import (
    Partial,
    Summary,
    accumulate_batches,
    choose_rows,
    from_bytes,
    summarize_batch,
    to_bytes,
)
from priormtl.engines.files import naming
from priormtl.engines.parquet import SourceRows, read_rows, summarize, summarize_source
from priormtl.engines.raw_tables import Frame, RawTable
from priormtl.engines.schema import Schema, Wanted
from priormtl.engines.shards import open_shards, summarize_sharded
from priormtl.engines.sources import Source, open_source
from priormtl.engines.task_blocks import fit

__all__ = [
    "Frame",
    "Partial",
    "RawTable",
    "Schema",
    "Source",
    "SourceRows",
    "Summary",
    "Wanted",
    "accumulate_batches",
    "choose_rows",
    "dask",
    "fit",
    "from_bytes",
    "naming",
    "open_shards",
    "open_source",
    "read_rows",
    "spark",
    "summarize",
    "summarize_batch",
    "summarize_sharded",
    "summarize_source",
    "to_bytes",
]
