"""Prior files: what is known about features and tasks, in TOML.

There is one table per statement::

    [[similar]]                             [[nonpositive]]
    features = ["maths", "physics"]         features = ["price"]
    weight = 2
                                            [[task_similar]]
    [[group]]                               tasks = ["north", "south"]
    name = "verbal"
    features = ["reading", "essay"]         [task_nested]
                                            "school 1" = "district A"
    [[near]]
    feature = "dose"
    value = 0.3        # or {north = 0.3, south = 0.2}, for each task

Task labels that are keys are numbers if they are whole numbers. Every error names the
file and the line.
"""

import math
import os
import re
import tomllib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from priormtl.archive import Settings
from priormtl.design import Design
from priormtl.design.columns import find_name
from priormtl.exceptions import DataFileError, suggest_file, unknown_name


class Kind(NamedTuple):
    """What a statement takes: settings in TOML, and how many names."""

    settings: tuple[str, ...]
    least: int = 1
    most: float = math.inf
    of_tasks: bool = False


OF_FEATURES, OF_TASKS = ("features", "weight", "name"), ("tasks", "weight", "name")
KINDS = {
    "similar": Kind(OF_FEATURES, 2, 2),
    "opposite": Kind(OF_FEATURES, 2, 2),
    "group": Kind(OF_FEATURES, 2),
    "near": Kind(("feature", "value", "weight")),
    "nonnegative": Kind(("features",)),
    "nonpositive": Kind(("features",)),
    "common": Kind(("features",)),
    "smooth": Kind(("features", "weight")),
    "task_similar": Kind(OF_TASKS, 2, 2, of_tasks=True),
    "task_group": Kind(OF_TASKS, 2, of_tasks=True),
    "task_nested": Kind((), of_tasks=True),
}
NESTED = "task_nested"


class Relation(NamedTuple):
    """One statement about features or tasks."""

    kind: str
    names: tuple[Any, ...]  # of features, or labels of tasks
    weight: float
    line: int
    lines: tuple[int, ...]  # of each name
    values: tuple[Any, ...] = ()  # known values of features, groups of tasks

    @property
    def of_tasks(self) -> bool:
        return KINDS[self.kind].of_tasks


@dataclass(frozen=True)
class PriorFile:
    """Statements of a file, with their lines."""

    path: str
    relations: tuple[Relation, ...]

    @property
    def feature_relations(self) -> tuple[Relation, ...]:
        return tuple(one for one in self.relations if not one.of_tasks)

    @property
    def task_relations(self) -> tuple[Relation, ...]:
        return tuple(one for one in self.relations if one.of_tasks)

    def check_names(self, design: Design) -> None:
        """Fail at the first name that is no feature, or no column where one is meant.

        Common effects may name columns with categories, smooth ones need wiggles.
        """
        features, wiggles = design.names, set(design.wiggles())
        known = set(features)
        columns = known | set(design.derived())
        for one in self.feature_relations:
            for name, line in zip(one.names, one.lines, strict=True):
                name = find_name(name, columns)  # noqa: PLW2901
                if one.kind == "smooth" and name in known and name not in wiggles:
                    words = f"smooth needs {name!r} to have a curve: see --smooth."
                    raise _wrong(self.path, line, words)
                if name not in (columns if one.kind == "common" else known):
                    error = unknown_name("feature", name, features)
                    raise _wrong(self.path, line, str(error))

    def match_tasks(self, tasks: Sequence[Hashable]) -> "PriorFile":
        """Same statements with the labels of these tasks, found by their spelling.

        Fails at the first name that is no task.
        """
        spelled = {str(task): task for task in tasks}

        def find(name: object, line: int) -> Any:
            if str(name) not in spelled:
                raise _wrong(self.path, line, str(unknown_name("task", name, tasks)))
            return spelled[str(name)]

        found = []
        for one in self.relations:
            names, values = one.names, one.values
            if one.of_tasks:
                names = tuple(map(find, names, one.lines))
            elif one.kind == "near" and isinstance(values[0], dict):
                known = values[0].items()
                values = ({find(t, one.line): value for t, value in known},)
            found.append(one._replace(names=names, values=values))
        return PriorFile(self.path, tuple(found))


def read_prior_file(path: str | os.PathLike[str]) -> PriorFile:
    file = Path(path)
    if file.suffix.lower() != ".toml":
        raise DataFileError(f"{file} must end in .toml to be a prior file.")
    if not file.is_file():
        raise FileNotFoundError(
            f"{file} is not a file: give the path of a prior file.{suggest_file(file)}"
        )
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise DataFileError(f"{file} must be text in UTF-8.") from None
    relations = tuple(_read_toml(str(file), text))
    if not relations:
        raise DataFileError(f"{file} has no relations: name some, such as [[similar]].")
    for relation in relations:
        _check_count(str(file), relation)
    return PriorFile(str(file), relations)


def _wrong(path: str, line: int, words: str) -> DataFileError:
    return DataFileError(f"{path}, line {line}: {words}")


def _check_count(path: str, relation: Relation) -> None:
    kind, names = relation.kind, relation.names
    _, least, most, of_tasks = KINDS[kind]
    noun = "tasks" if of_tasks else "features"
    if not least <= len(names) <= most:
        count = "two" if most == 2 else "two or more" if least == 2 else "some"
        group = kind.replace("similar", "group").replace("opposite", "group")
        way_out = f"; more of them are a {group}" if len(names) > most else ""
        words = f"{kind} must name {count} {noun}: got {len(names)}{way_out}."
        raise _wrong(path, relation.line, words)
    seen: set[object] = set()
    for name, line in zip(names, relation.lines, strict=True):
        if name in seen:
            words = f"{kind} must name different {noun}: {name!r} comes twice."
            raise _wrong(path, line, words)
        seen.add(name)


def _check_number(path: str, line: int, what: str, value: Any) -> float:
    """Finite number; weights are positive."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    positive = what == "weight"
    if not number or not math.isfinite(value) or (positive and value <= 0):
        kind = "positive" if positive else "finite"
        raise _wrong(path, line, f"{what} must be a {kind} number: got {value!r}.")
    return float(value)


def _label(text: Any) -> Hashable:
    """Label of a task; texts that spell whole numbers are numbers."""
    spells = isinstance(text, str) and re.fullmatch(r"0|-?[1-9]\d{0,99}", text)
    return int(text) if spells else text


# The parser of TOML does not tell lines, so that names are found again in the text.


class TomlTable(NamedTuple):
    """A table of a TOML file: its name, its first line, and all its lines."""

    name: str
    line: int
    lines: list[str]

    def line_of_key(self, key: str) -> int:
        """Line of a key, or of the table if it has no such key."""
        pattern = re.compile(rf"(?<![\w-])[\"']?{re.escape(key)}[\"']?[ \t]*[=.]")
        found = (n for n, text in enumerate(self.lines) if pattern.search(text))
        return self.line + next(found, 0)

    def lines_of_texts(self, texts: Iterable[str]) -> tuple[int, ...]:
        """Line of each text; repeated texts get their lines in turn."""
        left: dict[str, Iterator[int]] = {}
        for text in texts:
            quoted = f'"{text}"', f"'{text}'"
            left[text] = iter(
                [
                    self.line + n
                    for n, line in enumerate(self.lines)
                    for _ in range(sum(map(line.count, quoted)))
                ]
            )
        return tuple(next(left[text], self.line) for text in texts)


def find_tables(text: str) -> list[TomlTable]:
    """Tables of a valid TOML file; the first, before any head, has no name."""
    head = re.compile(r"\s*\[\[?\s*[\"']?([\w-]+)[\"']?\s*(\.[^]]*)?\]\]?\s*")
    # Remarks and texts of several lines may hold anything: only their lines count.
    masked = re.compile(
        r"(\"{3}|'{3}).*?\1|(\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*')|#[^\n]*", re.DOTALL
    )
    plain = masked.sub(lambda found: found[2] or "\n" * found[0].count("\n"), text)
    tables = [TomlTable("", 1, [])]
    for number, line in enumerate(plain.splitlines(), 1):
        match = head.fullmatch(line)
        # A table such as [near.value] belongs to the [[near]] above it.
        if match and not (match[2] and match[1] == tables[-1].name):
            tables.append(TomlTable(match[1], number, []))
        tables[-1].lines.append(line)
    return tables


def line_of_fault(text: str, error: tomllib.TOMLDecodeError) -> tuple[int, str]:
    """Line of a syntax error in TOML, and what is wrong there."""
    reason, _, place = str(error).rpartition(" (at ")
    if match := re.match(r"line (\d+)", place):
        return int(match[1]), reason
    # At the end of the file: the last statement is not complete.
    begun = [n for n, line in enumerate(text.splitlines(), 1) if "=" in line]
    return max(begun, default=1), reason


def _read_toml(path: str, text: str) -> Iterator[Relation]:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line, reason = line_of_fault(text, error)
        raise _wrong(path, line, f"this is not TOML: {reason}.") from None
    except RecursionError:
        raise DataFileError(f"{path}: its brackets are nested too deeply.") from None
    except ValueError:
        raise DataFileError(f"{path}: a number has too many digits.") from None
    places = find_tables(text)
    for kind, tables in content.items():
        line = _find_place(places, kind).line
        if kind not in KINDS:
            raise _wrong(path, line, str(unknown_name("relation", kind, KINDS)))
        if kind == NESTED:
            yield _read_parents(path, tables, _find_place(places, kind))
            continue
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
    line = places[0].line_of_key(kind)
    return TomlTable(kind, line, places[0].lines[line - 1 :])


def _read_table(path: str, kind: str, table: Settings, place: TomlTable) -> Relation:
    settings = KINDS[kind].settings
    for key in table:
        if key not in settings:
            words = str(unknown_name("setting", key, settings))
            raise _wrong(path, place.line_of_key(key), words)
    line = place.line_of_key("weight")
    weight = _check_number(path, line, "weight", table.get("weight", 1.0))
    if kind == "near":
        return _read_value(path, table, weight, place)
    key = settings[0]
    allowed = (str, int, float, date) if key == "tasks" else str
    names, fault = table.get(key), place.line_of_key(key)
    if not isinstance(names, list) or not all(
        isinstance(name, allowed) and not isinstance(name, bool) for name in names
    ):
        words = f"{kind} needs {key} = [...], a list of names: got {names!r}."
        raise _wrong(path, fault, words)
    # Only texts are found again; numbers and dates have the line of their list.
    texts = place.lines_of_texts([name for name in names if isinstance(name, str)])
    left = iter(texts)
    lines = tuple(next(left) if isinstance(name, str) else fault for name in names)
    return Relation(kind, tuple(names), weight, place.line, lines)


def _read_value(
    path: str, table: Settings, weight: float, place: TomlTable
) -> Relation:
    """A known value of a feature: a number, or one for each task."""
    feature, value = table.get("feature"), table.get("value")
    if not isinstance(feature, str):
        words = f"near needs feature = ..., a name: got {feature!r}."
        raise _wrong(path, place.line_of_key("feature"), words)
    known: Any
    if isinstance(value, dict):
        known = {
            _label(task): _check_number(path, place.line_of_key(task), "value", one)
            for task, one in value.items()
        }
    else:
        known = _check_number(path, place.line_of_key("value"), "value", value)
    lines = place.lines_of_texts([feature])
    return Relation("near", (feature,), weight, place.line, lines, (known,))


def _read_parents(path: str, table: object, place: TomlTable) -> Relation:
    """Nested tasks: keys are tasks, values the groups that they lie in."""
    if not isinstance(table, dict):
        words = f"nested tasks must stand under [{NESTED}], in single brackets."
        raise _wrong(path, place.line, words)
    for task, parent in table.items():
        if isinstance(parent, bool) or not isinstance(parent, str | int | float | date):
            words = f"{NESTED} must name the group that {task!r} lies in: got "
            raise _wrong(path, place.line_of_key(task), f"{words}{parent!r}.")
    lines = tuple(place.line_of_key(task) for task in table)
    # "district / school" are groups, coarse to fine.
    groups = [
        tuple(group.split(" / "))
        if isinstance(group, str) and " / " in group
        else group
        for group in table.values()
    ]
    tasks = tuple(map(_label, table))
    return Relation(NESTED, tasks, 1.0, place.line, lines, tuple(groups))
