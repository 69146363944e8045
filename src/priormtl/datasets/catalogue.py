"""All data sets by name: which are at hand, and how their files are made."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from priormtl.datasets.files import (
    Folder,
    Source,
    check_arrays,
    find_home,
    read_arrays,
    write_arrays,
)
from priormtl.datasets.letter import LETTER
from priormtl.datasets.letter_uci import LETTER_UCI
from priormtl.datasets.mnist import MNIST
from priormtl.datasets.orl import ORL
from priormtl.datasets.sarcos import SARCOS
from priormtl.datasets.school import SCHOOL
from priormtl.datasets.yale import YALE
from priormtl.exceptions import DataFileError, MissingDataError, unknown_name

__all__ = ["SOURCES", "Conversion", "Finding", "convert_original", "look_for"]

SOURCES = {
    source.name: source
    for source in (SCHOOL, SARCOS, YALE, MNIST, LETTER, LETTER_UCI, ORL)
}


@dataclass(frozen=True)
class Finding:
    """Whether a data set is at hand."""

    source: Source
    state: str  # found, missing, changed (other contents) or damaged
    message: str  # the way out, empty where found


@dataclass(frozen=True)
class Conversion:
    """A file that was written, and whether it holds what was published."""

    path: Path
    verified: bool


def look_for(source: Source, data_home: Folder = None) -> Finding:
    """Read a data set's file and say what it is like."""
    try:
        read_arrays(source, data_home=data_home)
    except MissingDataError as error:
        return Finding(source, "missing", str(error))
    except (DataFileError, OSError) as error:
        return Finding(source, _name_fault(source, data_home), str(error))
    return Finding(source, "found", "")


def _name_fault(source: Source, data_home: Folder) -> str:
    """Changed where the file can be read but for its digests, else damaged."""
    try:
        read_arrays(source, data_home=data_home, verify=False)
    except (DataFileError, OSError):
        return "damaged"
    return "changed"


def convert_original(
    name: str,
    originals: Sequence[Path],
    *,
    data_home: Folder = None,
    replace: bool = False,
) -> Conversion:
    """Write a data set's file from its originals, all or nothing.

    Contents of the right shape that differ from the published ones are written too;
    loaders then want ``verify=False``.
    """
    if name not in SOURCES:
        raise unknown_name("data set", name, SOURCES)
    source, folder = SOURCES[name], find_home(data_home)
    if not folder.is_dir():
        raise MissingDataError(f"the folder {folder} does not exist; make it first.")
    path = folder / source.file
    if path.exists() and not replace:
        raise DataFileError(
            f"{path} exists already; replace=True (in a shell --replace) renews it."
        )
    arrays = source.convert(originals)
    verified = check_arrays(source, arrays)
    write_arrays(path, arrays)
    return Conversion(path, verified)
