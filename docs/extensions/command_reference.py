"""cli.md: every command with its options and examples, read from its signature."""

import inspect
import re
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

from typer.main import get_command
from typer.models import ArgumentInfo

__all__ = ["setup"]

INTRODUCTION = """\
# Command line

Invalid input ends with a one-line message and exit code 2, other failures with exit \
code 1. Files are written completely or not at all. `--json` prints machine-readable \
output.
"""


class Parameter(NamedTuple):
    """What one argument or option of a command says of itself."""

    usage: str  # in the command's first line; empty for what may be left out
    name: str
    meaning: str


def setup(app: Any) -> dict[str, bool]:
    """Write the page before pages are read."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Any) -> None:
    page = "\n".join([INTRODUCTION, *_sections()])
    file = Path(app.srcdir) / "cli.md"
    if not file.exists() or file.read_text(encoding="utf-8") != page:
        file.write_text(page, encoding="utf-8")


def _sections() -> Iterator[str]:
    from priormtl.cli.main import app as commands  # noqa: PLC0415

    yield from _members(get_command(commands), "")


def _members(group: Any, path: str) -> Iterator[str]:
    """Sections of the commands of a group, and of groups inside it."""
    context = group.make_context(path or "priormtl", [], resilient_parsing=True)
    for name in group.list_commands(context):
        member = group.get_command(context, name)
        yield _section(f"{path}{name}", inspect.unwrap(member.callback))
        if hasattr(member, "list_commands"):
            yield from _members(member, f"{path}{name} ")


def _section(name: str, command: Callable[..., Any]) -> str:
    words, examples = _split_help(inspect.getdoc(command) or "")
    found = list(_parameters(command))
    usage = " ".join(["priormtl", name, *(each.usage for each in found if each.usage)])
    rows = [_row(each) for each in found]
    table = ["| argument | meaning |", "| --- | --- |", *rows] if rows else []
    block = ["```console", *(f"$ {example}" for example in examples), "```"]
    parts = [f"## {name}", f"    {usage}", words, "\n".join(table), "\n".join(block)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _split_help(text: str) -> tuple[str, list[str]]:
    """Explanation and examples, each a paragraph."""
    paragraphs = [" ".join(each.split()) for each in re.split(r"\n\s*\n", text)]
    examples = [each for each in paragraphs if each.startswith("Example: ")]
    words = [each for each in paragraphs if each not in examples]
    spelled = [re.sub(r"(?<![\w`-])(--[a-z][a-z-]*)", r"`\1`", each) for each in words]
    return "\n\n".join(spelled), [each.removeprefix("Example: ") for each in examples]


def _parameters(command: Callable[..., Any]) -> Iterator[Parameter]:
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        # A signature may be that of another class, whose hints are its annotations.
        kind, *info = get_args(hints.get(name, parameter.annotation)) or [None]
        if info:  # what typer itself passes has none
            yield _describe(name, kind, info[0], parameter.default)


def _describe(name: str, kind: Any, info: Any, default: Any) -> Parameter:
    required = default is inspect.Parameter.empty
    value = info.metavar or name.upper()
    meaning = _explain(info.help or "", kind, None if required else default)
    if isinstance(info, ArgumentInfo):
        return Parameter(value if required else f"[{value}]", value, meaning)
    # In a signature, what stands first in Option(...) is a spelling, not a default.
    spellings = [each for each in (info.default, *info.param_decls) if each is not ...]
    option = next(iter(spellings), f"--{name.replace('_', '-')}")
    spelled = option if bool in {kind, *get_args(kind)} else f"{option} {value}"
    return Parameter(spelled if required else "", spelled, meaning)


def _explain(words: str, kind: Any, default: Any) -> str:
    for choice in filter(_is_choice, (kind, *get_args(kind))):
        words += f" One of {', '.join(f'`{each.value}`' for each in choice)}."
    if default not in (None, False):
        words += f" Default: `{getattr(default, 'value', default)}`."
    return words


def _is_choice(kind: Any) -> bool:
    return inspect.isclass(kind) and issubclass(kind, Enum)


def _row(parameter: Parameter) -> str:
    name, meaning = (text.replace("|", "\\|") for text in parameter[1:])
    return f"| `{name}` | {meaning} |"
