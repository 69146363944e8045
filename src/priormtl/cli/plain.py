"""to_json: what programs read, without NaN and infinity, which JSON does not know."""

import json
import math
from typing import Any

__all__ = ["to_json"]


def to_json(value: Any, **layout: Any) -> str:
    """Text of plain values; numbers that are not finite become null.

    Examples
    --------
    >>> to_json({"gap": float("inf"), "scores": [0.5, float("nan")]})
    '{"gap": null, "scores": [0.5, null]}'
    """
    return json.dumps(_known(value), allow_nan=False, **layout)


def _known(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _known(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_known(one) for one in value]
    return value
