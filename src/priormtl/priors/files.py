"""Prior files: relations between features by name, in TOML or CSV.

TOML has one table per relation or group, CSV one line per relation or member::

    [[similar]]                             relation,first,second,weight
    features = ["maths", "physics"]         similar,maths,physics,2
    weight = 2                              opposite,price,demand,
                                            group,verbal,reading,
    [[opposite]]                            group,verbal,essay,
    features = ["price", "demand"]

    [[group]]
    name = "verbal"
    features = ["reading", "essay"]

Every error names the file and the line.
"""

import csv
import math
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from priormtl.exceptions import DataFileError, suggest_file, unknown_name

KINDS = ("similar", "opposite", "group")

TOML_KEYS = ("features", "weight", "name")

CSV_COLUMNS = ("relation", "first", "second", "weight")


class Relation(NamedTuple):
    """Two features that act alike or oppositely, or a group that acts alike."""

    kind: str
    features: tuple[str, ...]
    weight: float
    line: int
    lines: tuple[int, ...]  # of each feature


@dataclass(frozen=True)
class PriorFile:
    """Relations of a file, with their lines."""

    path: str
    relations: tuple[Relation, ...]

    def check_names(self, features: Sequence[str]) -> None:
        known = set(features)
        for relation in self.relations:
            for name, line in zip(relation.features, relation.lines, strict=True):
                if name not in known:
                    error = unknown_name("feature", name, features)
                    raise _wrong(self.path, line, str(error))


def read_prior_file(path: str | os.PathLike[str]) -> PriorFile:
    file = Path(path)
    readers = {".toml": _read_toml, ".csv": _read_csv}
    if file.suffix.lower() not in readers:
        raise DataFileError(f"{file} must end in .toml or .csv to be a prior file.")
    if not file.is_file():
        raise FileNotFoundError(
            f"{file} is not a file: give the path of a prior file.{suggest_file(file)}"
        )
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise DataFileError(f"{file} must be text in UTF-8.") from None
    relations = tuple(readers[file.suffix.lower()](str(file), text))
    if not relations:
        raise DataFileError(f"{file} has no relations: name some, such as [[similar]].")
    for relation in relations:
        _check_features(str(file), relation)
    return PriorFile(str(file), relations)


def _wrong(path: str, line: int, words: str) -> DataFileError:
    return DataFileError(f"{path}, line {line}: {words}")


def _check_features(path: str, relation: Relation) -> None:
    kind, features, _, line, lines = relation
    if len(features) < 2 or (kind != "group" and len(features) > 2):
        count = "two or more features" if kind == "group" else "two features"
        way_out = "" if kind == "group" else "; more of them are a group"
        words = f"{kind} must name {count}: got {len(features)}{way_out}."
        raise _wrong(path, line, words)
    seen: set[str] = set()
    for name, line in zip(features, lines, strict=True):
        if name in seen:
            words = f"{kind} must name different features: {name!r} comes twice."
            raise _wrong(path, line, words)
        seen.add(name)


def _check_weight(path: str, line: int, value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:
        words = f"weight must be a positive number: got {value!r}."
        raise _wrong(path, line, words)
    return float(value)


# TOML. Its parser does not tell lines, so that names are found again in the text.

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
    """A name, a text or a bracket in a TOML file."""

    kind: str  # a group of TOKEN
    text: str
    line: int

    @property
    def name(self) -> str:
        if self.text[:1] not in {'"', "'"}:
            return self.text
        return str(tomllib.loads(f"name = {self.text}")["name"])


@dataclass(frozen=True)
class TomlTable:
    """A table of a TOML file, with the lines of its keys and texts."""

    name: str
    line: int
    words: Sequence[_Token] = ()

    @cached_property
    def keys(self) -> dict[str, list[int]]:
        return _by_name(word for word in self.words if word.kind == "key")

    @cached_property
    def texts(self) -> dict[str, list[int]]:
        return _by_name(word for word in self.words if word.kind in TEXTS)

    def line_of_key(self, key: str) -> int:
        """Line of a key, or of the table if it has no such key."""
        return self.keys.get(key, [self.line])[0]

    def lines_of_texts(self, texts: Iterable[str]) -> tuple[int, ...]:
        """Line of each text; repeated texts get their lines in turn."""
        left = {text: iter(lines) for text, lines in self.texts.items()}
        return tuple(next(left.get(text, iter(())), self.line) for text in texts)


def find_tables(text: str) -> list[TomlTable]:
    """Tables of a valid TOML file; the first, before any head, has no name."""
    tokens = list(_tokens(text))
    heads = [place for place, token in enumerate(tokens) if token.kind == "head"]
    ends = [*heads, len(tokens)]
    first = TomlTable("", 1, tokens[: ends[0]])
    others = [
        TomlTable(tokens[begin].name, tokens[begin].line, tokens[begin + 1 : end])
        for begin, end in pairwise(ends)
    ]
    return [first, *others]


def _by_name(words: Iterable[_Token]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for word in words:
        found.setdefault(word.name, []).append(word.line)
    return found


def line_of_fault(text: str, error: tomllib.TOMLDecodeError) -> tuple[int, str]:
    """Line of a syntax error in TOML, and what is wrong there."""
    words = str(error)
    place = PLACE.search(words)
    reason = words[: place.start()] if place else words
    if place and place["line"]:
        return int(place["line"]), reason
    # An error at the end: the last bracket that was not closed, or the last line.
    opened: list[int] = []
    for token in _tokens(text):
        if token.kind == "open":
            opened.append(token.line)
        elif token.kind == "close" and opened:
            opened.pop()
    return (opened[-1] if opened else max(1, len(text.splitlines()))), reason


def _tokens(text: str) -> Iterator[_Token]:
    line, seen = 1, 0
    for match in TOKEN.finditer(text):
        kind = str(match.lastgroup)
        start = match.start(kind)
        line, seen = line + text.count("\n", seen, start), start
        yield _Token(kind, match[kind], line)


def _read_toml(path: str, text: str) -> Iterator[Relation]:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line, reason = line_of_fault(text, error)
        raise _wrong(path, line, f"this is not TOML: {reason}.") from None
    places = find_tables(text)
    for kind, tables in content.items():
        line = _find_place(places, kind).line
        if kind not in KINDS:
            raise _wrong(path, line, str(unknown_name("relation", kind, KINDS)))
        if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
            words = f"relations must stand under [[{kind}]], in double brackets."
            raise _wrong(path, line, words)
        for number, table in enumerate(tables):
            yield _read_table(path, kind, table, _find_place(places, kind, number))


def _find_place(places: Sequence[TomlTable], kind: str, number: int = 0) -> TomlTable:
    """The n-th table of a kind; inline tables have the place of their key."""
    named = [place for place in places if place.name == kind]
    if number < len(named):
        return named[number]
    return replace(places[0], line=places[0].line_of_key(kind))


def _read_table(
    path: str, kind: str, table: dict[str, Any], place: TomlTable
) -> Relation:
    for key in table:
        if key not in TOML_KEYS:
            words = str(unknown_name("setting", key, TOML_KEYS))
            raise _wrong(path, place.line_of_key(key), words)
    features = table.get("features")
    if not isinstance(features, list) or not all(isinstance(f, str) for f in features):
        words = f"{kind} needs features = [...], a list of names: got {features!r}."
        raise _wrong(path, place.line_of_key("features"), words)
    value = table.get("weight", 1.0)
    weight = _check_weight(path, place.line_of_key("weight"), value)
    lines = place.lines_of_texts(features)
    return Relation(kind, tuple(features), weight, place.line, lines)


# CSV
def _read_csv(path: str, text: str) -> Iterator[Relation]:
    rows = _numbered_rows(path, text)
    line, header = next(rows, (1, list(CSV_COLUMNS)))
    names = [name.strip() for name in header]
    for name in names:
        if name not in CSV_COLUMNS:
            raise _wrong(path, line, str(unknown_name("column", name, CSV_COLUMNS)))
    for name in CSV_COLUMNS[:3]:
        if name not in names:
            words = f"the first line must name the column {name!r}: got {names}."
            raise _wrong(path, line, words)
    yield from _join_groups(path, [_read_row(path, n, names, row) for n, row in rows])


def _numbered_rows(path: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Rows and their lines; empty lines and remarks (#) are skipped."""
    reader = csv.reader(text.splitlines(), strict=True)
    try:
        for row in reader:
            if any(cell.strip() for cell in row) and not row[0].startswith("#"):
                yield reader.line_num, row
    except csv.Error as error:
        raise _wrong(path, reader.line_num, f"this is not CSV: {error}.") from None


def _read_row(
    path: str, line: int, names: Sequence[str], row: Sequence[str]
) -> Relation:
    """One line; for a group, the features are its name and one member."""
    if len(row) > len(names):
        words = f"a line must have {len(names)} cells: got {len(row)}."
        raise _wrong(path, line, words)
    cells = dict(zip(names, map(str.strip, row), strict=False))
    kind = cells["relation"]
    if kind not in KINDS:
        raise _wrong(path, line, str(unknown_name("relation", kind, KINDS)))
    for name in CSV_COLUMNS[1:3]:
        if not cells.get(name):
            raise _wrong(path, line, f"column {name!r} must not be empty.")
    text: float | str = cells.get("weight") or "1"
    with suppress(ValueError):
        text = float(text)
    weight = _check_weight(path, line, text)
    pair = cells["first"], cells["second"]
    return Relation(kind, pair, weight, line, (line, line))


def _join_groups(path: str, rows: Sequence[Relation]) -> Iterator[Relation]:
    """Pairs in the order of the file, then groups with all their members."""
    groups: dict[str, list[Relation]] = {}
    for row in rows:
        if row.kind == "group":
            groups.setdefault(row.features[0], []).append(row)
        else:
            yield row
    for name, members in groups.items():
        first = members[0]
        for row in members:
            if row.weight != first.weight:
                words = (
                    f"group {name!r} must have one weight: got {row.weight:g} after "
                    f"{first.weight:g}."
                )
                raise _wrong(path, row.line, words)
        features = tuple(row.features[1] for row in members)
        lines = tuple(row.line for row in members)
        yield Relation("group", features, first.weight, first.line, lines)
