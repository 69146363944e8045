"""Public formats of the originals: MATLAB files, IDX images, tables of text."""

import gzip
import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from priormtl.exceptions import DataFileError

__all__ = [
    "cells",
    "first_of",
    "flip_pixels",
    "read_idx",
    "read_lines",
    "read_mat",
    "take_files",
    "to_integers",
]

MOST_BYTES = 2**28
IDX_BYTES = 0x08  # the type code of unsigned bytes


def take_files(originals: Sequence[Path], count: int, names: str) -> list[Path]:
    """The originals, if they are as many as needed and can be found."""
    if len(originals) != count:
        raise DataFileError(
            f"give {count} original file{'s' if count > 1 else ''} ({names}): got "
            f"{len(originals)}."
        )
    for path in originals:
        if not path.is_file():
            raise DataFileError(f"{path} is not a file; give the path of {names}.")
        if path.stat().st_size > MOST_BYTES:
            raise DataFileError(f"{path} is larger than any of our originals.")
    return list(originals)


def read_mat(path: Path) -> dict[str, Any]:
    """Variables of a MATLAB file (up to version 7.2)."""
    from scipy.io import loadmat  # noqa: PLC0415 (not needed to load data sets)

    try:
        return dict(loadmat(path))
    except Exception as error:  # what a damaged file raises is not documented
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataFileError(
            f"{path} cannot be read as a MATLAB file ({reason}); download it again."
        ) from None


def first_of(path: Path, variables: dict[str, Any], *names: str) -> np.ndarray:
    """The variable by one of its names."""
    for name in names:
        if isinstance(variables.get(name), np.ndarray):
            return variables[name]
    known = [name for name in variables if not name.startswith("__")]
    raise DataFileError(
        f"{path} has no variable {' or '.join(names)}; it holds {', '.join(known)}."
    )


def read_bytes(path: Path) -> bytes:
    """Contents of a file, unpacked if it is gzipped."""
    content = path.read_bytes()
    if content[:2] != b"\x1f\x8b":
        return content
    try:
        with gzip.open(path) as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataFileError(f"{path} is damaged ({error}); get it again.") from None
    if len(content) > MOST_BYTES:
        raise DataFileError(f"{path} unpacks to more than any of our originals.")
    return content


def read_lines(path: Path) -> list[str]:
    """Lines of a text that are not blank, without white space around them."""
    try:
        lines = read_bytes(path).decode("ascii").splitlines()
    except UnicodeDecodeError:
        raise DataFileError(f"{path} is not a plain text file.") from None
    return [line.strip() for line in lines if line.strip()]


def read_idx(path: Path) -> np.ndarray:
    """Unsigned bytes of an IDX file, plain or gzipped."""
    content = read_bytes(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != IDX_BYTES:
        raise DataFileError(f"{path} is no IDX file of unsigned bytes.")
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise DataFileError(f"{path} is cut off; download it again.")
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    values = np.frombuffer(content, dtype=np.uint8, offset=start)
    if values.size != math.prod(shape):
        raise DataFileError(
            f"{path} must hold {shape} values: got {values.size}; download it again."
        )
    return values.reshape(shape)


def to_integers(place: str, values: Any, dtype: str) -> np.ndarray:
    """The same values as integers of a small type; others are refused."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataFileError(f"{place} must hold numbers, one in each field.") from None
    limits = np.iinfo(dtype)
    whole = (numbers == np.floor(numbers)) & np.isfinite(numbers)
    if not np.all(whole & (numbers >= limits.min) & (numbers <= limits.max)):
        raise DataFileError(
            f"{place} must hold whole numbers from {limits.min} to {limits.max}."
        )
    return numbers.astype(dtype)


def flip_pixels(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """Images stored column by column as images stored row by row."""
    columns = pixels.reshape(-1, width, height)
    return np.ascontiguousarray(columns.transpose(0, 2, 1)).reshape(len(pixels), -1)


def cells(place: str, values: np.ndarray) -> list[Any]:
    """Entries of a MATLAB cell array."""
    if values.dtype != object:
        raise DataFileError(f"{place} must be a cell array.")
    return values.ravel().tolist()
