"""Small texts such as ``year >= 2010 and colour != "red"`` as filters of Arrow."""

import ast
import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import pyarrow.compute as pc

from priormtl.exceptions import unknown_name

__all__ = ["read_filter"]

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def read_filter(text: str, names: Sequence[str]) -> Any:
    """Expression of comparisons between columns and values, with and, or, not.

    Names with spaces are written in backticks.

    Examples
    --------
    >>> print(read_filter("year >= 2010 and colour != 'red'", ["year", "colour"]))
    ((year >= 2010) and (colour != "red"))
    """
    try:
        tree = ast.parse(_quote(text), mode="eval")
    except (SyntaxError, ValueError):
        raise _refusal(text) from None
    return _build(tree.body, text, names)


def _quote(text: str) -> str:
    """Names in backticks as lists, which no filter has otherwise."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        raise ValueError("a backtick is alone")
    pieces[1::2] = [f"[{piece!r}]" for piece in pieces[1::2]]
    return "".join(pieces).strip()


def _build(node: ast.expr, text: str, names: Sequence[str]) -> Any:
    if isinstance(node, ast.BoolOp):
        join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
        return reduce(join, (_build(part, text, names) for part in node.values))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return ~_build(node.operand, text, names)
    if isinstance(node, ast.Compare):
        return _compare(node, text, names)
    raise _refusal(text)


def _compare(node: ast.Compare, text: str, names: Sequence[str]) -> Any:
    """One comparison, or a chain of them."""
    if not all(type(op) in COMPARISONS for op in node.ops):
        raise _refusal(text)
    sides = [_side(side, text, names) for side in (node.left, *node.comparators)]
    steps = zip(node.ops, sides[:-1], sides[1:], strict=True)
    found = [COMPARISONS[type(op)](left, right) for op, left, right in steps]
    return reduce(operator.and_, found)


def _side(node: ast.expr, text: str, names: Sequence[str]) -> Any:
    """A column or a value."""
    name = _name(node)
    if name is not None:
        if name not in names:
            raise unknown_name("column", name, names)
        return pc.field(name)
    try:
        value = ast.literal_eval(node)
    except ValueError:
        raise _refusal(text) from None
    if not isinstance(value, bool | int | float | str):
        raise _refusal(text)
    return pc.scalar(value)


def _name(node: ast.expr) -> str | None:
    if isinstance(node, ast.List) and len(node.elts) == 1:
        return str(getattr(node.elts[0], "value", ""))
    return node.id if isinstance(node, ast.Name) else None


def _refusal(text: str) -> ValueError:
    return ValueError(
        'where must compare columns with values, such as "year >= 2010 and colour != '
        f"'red'\": got {text!r}."
    )
