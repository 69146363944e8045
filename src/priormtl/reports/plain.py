"""Content as JSON: lists for people and programs, packed numbers for the page."""

import json
import math
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.reports.content import Content, Finding, Table

__all__ = ["pack_numbers", "to_json", "to_page_data"]

FORMAT = 1  # of the JSON, raised when its fields change their meaning


def to_json(content: Content) -> str:
    """All content; unknown numbers are null."""
    features, tasks = content.block_names
    plain = _describe(content, _listed) | {
        "coefficients": {
            "features": list(features),
            "tasks": list(tasks),
            "values": [_listed(row) for row in content.block.values],
            "features_left_out": content.block.features_left_out,
            "tasks_left_out": content.block.tasks_left_out,
        }
    }
    return json.dumps(plain, ensure_ascii=False, allow_nan=False)


def to_page_data(content: Content) -> str:
    """The same for a page's script, safe inside of HTML."""
    block = content.block
    plain = _describe(content, pack_numbers) | {
        "coefficients": {
            "shape": list(block.values.shape),
            "values": pack_numbers(block.values),
            "features_left_out": block.features_left_out,
            "tasks_left_out": block.tasks_left_out,
        }
    }
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
    # Nothing inside of a script's element may look like markup.
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def pack_numbers(values: Array) -> str:
    """Doubles, smallest byte first, as base64: exact, and 11 bytes each."""
    return b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode()


def _describe(content: Content, numbers: Callable[[Array], Any]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "title": content.title,
        "metric": content.metric,
        "facts": [list(fact) for fact in content.facts],
        "findings": [_describe_finding(finding) for finding in content.findings],
        "tables": {t.name: _describe_table(t, numbers) for t in content.tables},
    }


def _describe_finding(finding: Finding) -> dict[str, Any]:
    numbers = dict(finding.numbers or {})
    return {
        "key": finding.key,
        "question": finding.question,
        "value": finding.value,
        "sentence": finding.sentence,
        "note": finding.note,
        "numbers": {name: _plain(value) for name, value in numbers.items()},
    }


def _describe_table(table: Table, numbers: Callable[[Array], Any]) -> dict[str, Any]:
    return {
        "title": table.title,
        "note": table.note,
        "left_out": table.left_out,
        "columns": [
            {
                "name": column.name,
                "label": column.label,
                "text": column.is_text,
                "values": list(column.values)
                if isinstance(column.values, tuple)
                else numbers(column.values),
            }
            for column in table.columns
        ],
    }


def _listed(values: Array) -> list[float | None]:
    return [_plain(value) for value in values.tolist()]


def _plain(value: Any) -> Any:
    """JSON has neither NaN nor infinity."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
