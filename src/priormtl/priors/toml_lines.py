"""Lines on which the words of a TOML file stand, which its parser does not tell."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Table", "find_tables", "line_of_fault"]

BARE, BASIC, LITERAL = r"[\w-]+", r'"(?:\\.|[^"\\\n])*"', r"'[^'\n]*'"
NAME = f"(?:{BARE}|{BASIC}|{LITERAL})"
BELOW = rf"(?:[ \t]*\.[ \t]*{NAME})*[ \t]*"  # as in similar.weight
# Remarks and texts of several lines come first, since they may hold all the rest.
TOKEN = re.compile(
    r"(?P<skipped>#[^\n]*)"
    r'|(?P<long>"""(?s:\\.|[^\\])*?"""+|\'\'\'(?s:.)*?\'\'\'+)'
    rf"|^[ \t]*\[\[?[ \t]*(?P<head>{NAME}){BELOW}\]\]?[ \t]*(?=#|\r?$)"
    rf"|(?P<key>{NAME})(?={BELOW}=)"
    rf"|(?P<text>{BASIC}|{LITERAL})"
    r"|(?P<open>[\[{])|(?P<close>[\]}])",
    re.MULTILINE,
)
TEXTS = ("text", "long")
PLACE = re.compile(r" \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")


class _Token(NamedTuple):
    """A piece of a file that names something, or a bracket."""

    kind: str  # a group of TOKEN
    text: str
    line: int

    @property
    def name(self) -> str:
        """What it says, without quotes."""
        if self.text[:1] not in {'"', "'"}:
            return self.text
        return str(tomllib.loads(f"name = {self.text}")["name"])


@dataclass(frozen=True)
class Table:
    """A table of a file: its name, and where its words stand."""

    name: str
    line: int
    words: Sequence[_Token] = ()

    @cached_property
    def keys(self) -> dict[str, list[int]]:
        """Lines of its settings."""
        return _by_name(word for word in self.words if word.kind == "key")

    @cached_property
    def texts(self) -> dict[str, list[int]]:
        """Lines of its texts."""
        return _by_name(word for word in self.words if word.kind in TEXTS)

    def line_of_key(self, key: str) -> int:
        """Line of a setting; that of the table where there is none."""
        return self.keys.get(key, [self.line])[0]

    def lines_of_texts(self, texts: Iterable[str]) -> tuple[int, ...]:
        """Line of each text; of one that comes twice, first one, then the other."""
        left = {text: iter(lines) for text, lines in self.texts.items()}
        return tuple(next(left.get(text, iter(())), self.line) for text in texts)


def find_tables(text: str) -> list[Table]:
    r"""Tables of a file that can be parsed, in order, each up to the next one.

    What comes before all heads is a table, too, of no name.

    Examples
    --------
    >>> file = '[[similar]]\nfeatures = [\n  "maths",\n  "physics",\n]'
    >>> table = find_tables(file)[-1]
    >>> table.name, table.line_of_key("features"), table.lines_of_texts(["physics"])
    ('similar', 2, (4,))
    """
    tokens = list(_tokens(text))
    heads = [place for place, token in enumerate(tokens) if token.kind == "head"]
    ends = [*heads, len(tokens)]
    first = Table("", 1, tokens[: ends[0]])
    others = [
        Table(tokens[begin].name, tokens[begin].line, tokens[begin + 1 : end])
        for begin, end in pairwise(ends)
    ]
    return [first, *others]


def _by_name(words: Iterable[_Token]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for word in words:
        found.setdefault(word.name, []).append(word.line)
    return found


def line_of_fault(text: str, error: tomllib.TOMLDecodeError) -> tuple[int, str]:
    """Line on which a file stops being TOML, and what is wrong there."""
    words = str(error)
    place = PLACE.search(words)
    reason = words[: place.start()] if place else words
    if place and place["line"]:
        return int(place["line"]), reason
    return _line_left_open(text), reason


def _line_left_open(text: str) -> int:
    """Line of the last bracket without its partner; else the last one."""
    opened: list[int] = []
    for token in _tokens(text):
        if token.kind == "open":
            opened.append(token.line)
        elif token.kind == "close" and opened:
            opened.pop()
    return opened[-1] if opened else max(1, len(text.splitlines()))


def _tokens(text: str) -> Iterator[_Token]:
    line, seen = 1, 0
    for match in TOKEN.finditer(text):
        kind = str(match.lastgroup)
        start = match.start(kind)
        line, seen = line + text.count("\n", seen, start), start
        yield _Token(kind, match[kind], line)
