"""read_blocks: features that are penalised together, by position or name."""

from itertools import chain
from typing import Any

import numpy as np

from priormtl._arrays import Index
from priormtl.data import TaskData

__all__ = ["read_blocks"]


def read_blocks(blocks: Any, data: TaskData) -> list[Index]:
    """Positions of the features of each block; all in one by default."""
    d = data.shape[0]
    if blocks is None:
        return [np.arange(d)]
    names: dict[Any, int] = {name: j for j, name in enumerate(data.features or ())}
    places: dict[Any, int] = {j: j for j in range(d)} | names
    found = [[places.get(entry, -1) for entry in block] for block in blocks]
    if sorted(chain(*found)) != list(range(d)) or not all(found):
        raise ValueError(
            f"blocks must hold each of the {d} features exactly once, by position or "
            f"name, and none may be empty: got {blocks!r}."
        )
    return [np.array(block, dtype=np.intp) for block in found]
