"""What if it does not fit here: statistics of rows in files, in batches, elsewhere."""

try:
    import pyarrow as _pyarrow  # noqa: F401
except ImportError:
    raise ImportError(
        "priormtl.engines needs pyarrow: pip install 'priormtl[arrow]'",
        name="pyarrow",
    ) from None

from priormtl.engines import dask, spark
from priormtl.engines.accumulate import accumulate_batches, choose_rows
from priormtl.engines.batches import summarize_batch
from priormtl.engines.folders import open_shards
from priormtl.engines.parquet import summarize, summarize_source
from priormtl.engines.partial import Partial, Summary
from priormtl.engines.recipe import Recipe, Wanted
from priormtl.engines.rows import Rows, read_rows
from priormtl.engines.shards import summarize_sharded
from priormtl.engines.sources import Source, naming, open_source
from priormtl.engines.wire import from_bytes, to_bytes

__all__ = [
    "Partial",
    "Recipe",
    "Rows",
    "Source",
    "Summary",
    "Wanted",
    "accumulate_batches",
    "choose_rows",
    "dask",
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
