"""Commands that are loaded when they are asked for, each from a file of its name."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from typer import Typer
from typer.core import TyperGroup
from typer.main import get_command

from priormtl.cli.errors import one_line_usage

__all__ = ["SETTINGS", "LazyGroup"]

SETTINGS: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    # A group that is not asked for its own help would load pydantic to read None.
    "context_settings": {"default_map": {"help": False}},
}


class LazyCommands(Mapping[str, Any]):
    """Commands by name. A file defines a function of its name, or its own ``app``."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise KeyError(name)
        return load_command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class LazyGroup(TyperGroup):
    """A group whose commands are known by their names only."""

    names: tuple[str, ...] = ()

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = LazyCommands(self.names)

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """Read what stands before the command; mistakes are one line."""
        with one_line_usage():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Find the command, read its words, and run it; mistakes are one line."""
        with one_line_usage():
            return super().invoke(ctx)


def load_command(name: str) -> Any:
    """Import the file of a command."""
    module = import_module(f"priormtl.cli.{name}")
    app = getattr(module, "app", None)
    if app is None:
        app = Typer(**SETTINGS)
        app.command(name)(getattr(module, name))
    command = get_command(app)
    command.name = name
    return command
