"""All data sets by name: which are available, and how their files are made."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from priormtl.datasets import files
from priormtl.datasets.classification import LETTER, LETTER_UCI, MNIST, ORL, YALE
from priormtl.datasets.regression import SARCOS, SCHOOL
from priormtl.exceptions import DataFileError, MissingDataError, unknown_name

SOURCES = {
    source.name: source
    for source in (SCHOOL, SARCOS, YALE, MNIST, LETTER, LETTER_UCI, ORL)
}


@dataclass(frozen=True)
class Finding:
    """Whether a data set is available."""

    source: files.Source
    state: str  # found, missing, changed (other contents) or damaged
    message: str  # what to do, empty if found


@dataclass(frozen=True)
class Conversion:
    """A file that was written, and whether it holds what was published."""

    path: Path
    verified: bool


def check_source(source: files.Source, data_home: files.Folder = None) -> Finding:
    """Read the file of a data set and report its state."""
    try:
        files.read_arrays(source, data_home=data_home)
    except MissingDataError as error:
        return Finding(source, "missing", str(error))
    except (DataFileError, OSError) as error:
        try:
            # Changed if only its digests differ, else damaged.
            files.read_arrays(source, data_home=data_home, verify=False)
        except (DataFileError, OSError):
            return Finding(source, "damaged", str(error))
        return Finding(source, "changed", str(error))
    return Finding(source, "found", "")


def convert_original(
    name: str,
    originals: Sequence[Path],
    *,
    data_home: files.Folder = None,
    replace: bool = False,
) -> Conversion:
    """Write the file of a data set from its originals, all or nothing.

    Contents of the right shape that differ from the published ones are written too;
    loaders then need ``verify=False``.
    """
    if name not in SOURCES:
        raise unknown_name("data set", name, SOURCES)
    source, folder = SOURCES[name], files.find_home(data_home)
    if not folder.is_dir():
        raise MissingDataError(f"the folder {folder} does not exist; make it first.")
    path = folder / source.file
    if path.exists() and not replace:
        raise DataFileError(
            f"{path} already exists. Overwrite it with replace=True (or --replace)."
        )
    arrays = source.convert(originals)
    verified = files.check_arrays(source, arrays)
    files.write_arrays(path, arrays)
    return Conversion(path, verified)
