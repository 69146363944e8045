"""refuse_beyond_memory: statistics that have no place here end with a sentence."""

import os
from collections.abc import Sequence

from priormtl.data import TaskStatistics

__all__ = ["refuse_beyond_memory"]

HELD = 3  # at a time: sum, part, and their sum


def refuse_beyond_memory(parts: Sequence[TaskStatistics]) -> None:
    """Fail before statistics fill the memory, and say where they have a place."""
    size = HELD * sum(part.xx.nbytes for part in parts)
    memory = physical_memory()
    if memory is None or size <= memory:
        return
    d, m = parts[0].shape
    folds = f" in {len(parts)} folds" if len(parts) > 1 else ""
    raise ValueError(
        f"statistics of {m} tasks over {d} features{folds} must fit into memory "
        f"{HELD} times, and have {memory / 1e9:.3g} GB: they take {size / 1e9:.3g} GB "
        "by now; write them to disk (engines.summarize_sharded, fit_source(shards=), "
        "priormtl fit --shards), or choose features."
    )


def physical_memory() -> int | None:
    """Bytes of memory, where the system tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
