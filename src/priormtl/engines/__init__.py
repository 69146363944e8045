"""What if it does not fit here: statistics of rows in files, in batches, elsewhere."""

try:
    import pyarrow as _pyarrow  # noqa: F401
except ImportError:
    raise ImportError(
        "priormtl.engines needs pyarrow: pip install 'priormtl[arrow]'",
        name="pyarrow",
    ) from None

from priormtl.engines.batches import summarize_batch
from priormtl.engines.partial import Partial, Summary
from priormtl.engines.recipe import Recipe
from priormtl.engines.wire import from_bytes, to_bytes

__all__ = [
    "Partial",
    "Recipe",
    "Summary",
    "from_bytes",
    "summarize_batch",
    "to_bytes",
]
