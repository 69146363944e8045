"""All errors and warnings of the package, and the wording for unknown names."""

from collections.abc import Hashable, Iterable, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

MOST_NAMES_SHOWN = 8
MOST_NAMES_MEANT = 3


class ApproximationWarning(UserWarning):
    """A method was too large for the data as they are and was fitted more coarsely."""


class ModelFileError(ValueError):
    """A file is not one of ours, is damaged, or is from another version."""


class MissingFileError(ModelFileError, FileNotFoundError):
    """A file that was to be read is not there."""


class MissingDataError(FileNotFoundError):
    """A data set is not where it was looked for, or no folder was named."""


class DataFileError(ValueError):
    """A data file is damaged, or holds other contents than it must."""


class FoldsError(ValueError):
    """Rows do not suffice to hold some of them out in turn."""


class TooLargeError(ValueError):
    """A model needs more memory or steps than it may take."""


def unknown_name(kind: str, name: Hashable, known: Iterable[Hashable]) -> ValueError:
    """Build the error for a name that is not among the known ones."""
    return unknown_names(kind, [name], known)


def unknown_names(
    kind: str, unknown: Sequence[Hashable], known: Iterable[Hashable], way_out: str = ""
) -> ValueError:
    """Build the error for names that are not among the known ones."""
    names = list(known)
    plural = "s" if len(unknown) > 1 else ""
    return ValueError(
        f"unknown {kind}{plural} {_listed(unknown)}; known: {_listed(names)}."
        f"{suggest(unknown, names)}{way_out and ' '}{way_out}"
    )


def absent_name(where: str, name: Hashable, present: Iterable[Hashable]) -> ValueError:
    """Build the error for a name that a table must have but has not."""
    names = list(present)
    listed = f"{_listed(names)}.{suggest([name], names)}"
    return ValueError(f"{where} {name!r}; it has: {listed}")


def suggest(unknown: Sequence[Hashable], names: Sequence[Hashable]) -> str:
    """Ask whether something near was meant; nothing is said where nothing is near."""
    near = [_nearest(name, names) for name in unknown[:MOST_NAMES_SHOWN]]
    hints = list(dict.fromkeys(hint for hint in near if hint))
    return f" Did you mean {', '.join(hints)}?" if hints else ""


def suggest_file(path: Path) -> str:
    """Ask whether a file beside one that is not there was meant."""
    most_files_compared = 10_000
    try:
        files = sorted(islice(path.parent.iterdir(), most_files_compared))
    except OSError:  # the folder is not there either, or not ours to look into
        return ""
    # The same ending makes short names look more alike than they are.
    near = [file for file in files if suggest([path.stem], [file.stem])]
    alike = [file for file in near if file.suffix == path.suffix]
    return suggest([path.name], [file.name for file in alike or near])


def _listed(names: Sequence[Hashable]) -> str:
    shown = ", ".join(repr(item) for item in names[:MOST_NAMES_SHOWN])
    more = f", … ({len(names)} in all)" if len(names) > MOST_NAMES_SHOWN else ""
    return shown + more


def _nearest(name: Hashable, names: Sequence[Hashable]) -> str:
    """Names spelled nearly like ``name``, or the same name of another type."""
    text = _spelling(name)
    by_text: dict[str, list[Hashable]] = {}
    for item in names:
        by_text.setdefault(_spelling(item), []).append(item)
    close = get_close_matches(text, list(by_text), n=MOST_NAMES_MEANT, cutoff=0.6)
    close = close or _beginning_alike(text, list(by_text))
    meant = [item for key in close for item in by_text[key]][:MOST_NAMES_MEANT]
    return " or ".join(map(repr, meant))


def _spelling(name: Hashable) -> str:
    longest_name_compared = 200
    return str(name)[:longest_name_compared].casefold().strip()


def _beginning_alike(text: str, texts: Sequence[str]) -> list[str]:
    """Longer texts that begin nearly like this one, as ridge-single does with rigde."""
    shortest_beginning = 4
    if len(text) < shortest_beginning:
        return []
    size = len(text)
    begins: dict[str, list[str]] = {}
    for one in texts:
        if len(one) > size:
            begins.setdefault(one[:size], []).append(one)
    close = get_close_matches(text, list(begins), n=MOST_NAMES_MEANT, cutoff=0.75)
    return [one for begin in close for one in begins[begin]]
