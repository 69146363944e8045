"""One file for arrays and plain settings: safetensors with a digest at its end.

The file is a valid safetensors file, so other tools can read the arrays. Its header
carries a JSON text of settings; its last 32 bytes are a digest of all bytes before
them. Reading checks sizes and the digest first, then builds arrays and plain values
only: no types, no code. The reader is our own because it must refuse any changed
byte, which the format itself does not ask for.
"""

import json
import math
import os
import struct
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from priormtl._files import write_whole
from priormtl.exceptions import MissingFileError, ModelFileError, suggest

__all__ = ["pack_archive", "read_archive", "unpack_archive", "write_archive"]

FORMAT_VERSION = 1
MOST_HEADER_BYTES = 100_000_000
MOST_FILE_BYTES = 64 * 2**30
DIGEST_BYTES = 32
LENGTH_BYTES = 8
MOST_LOOKED_AT = 1000  # files of a folder, for one that was meant
DTYPES = {"F64": "<f8", "I64": "<i8", "U8": "|u1"}
NAMES = {np.dtype(code): name for name, code in DTYPES.items()}

Arrays = Mapping[str, np.ndarray]


def write_archive(
    path: str | os.PathLike[str], kind: str, settings: Mapping[str, Any], arrays: Arrays
) -> None:
    """Write all or nothing: the file appears complete or not at all."""
    write_whole(path, pack_archive(kind, settings, arrays))


def read_archive(
    path: str | os.PathLike[str], kind: str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Settings and arrays of a file that ``write_archive`` wrote, unchanged since."""
    source = Path(path)
    if not source.is_file():
        raise _no_file(source, kind)
    if source.stat().st_size > MOST_FILE_BYTES:
        raise ModelFileError(f"{source} is larger than {MOST_FILE_BYTES} bytes.")
    content = source.read_bytes()
    try:
        return unpack_archive(content, kind)
    except ModelFileError as error:
        raise ModelFileError(f"{source}: {error}") from None


def _no_file(source: Path, kind: str) -> ModelFileError:
    """Build the error for a folder, or for nothing, in place of a file."""
    saved = f"saved {kind}" if kind.endswith("s") else f"a saved {kind}"
    words = f"{source} is not a file; give the path of {saved}."
    if source.exists():
        return ModelFileError(words)
    return MissingFileError(words + suggest([source.name], _files_beside(source)))


def _files_beside(path: Path) -> list[str]:
    """Names of some files in the same folder, where one can look into it."""
    with suppress(OSError):
        found = (one.name for one in path.parent.iterdir() if one.is_file())
        return sorted(islice(found, MOST_LOOKED_AT))
    return []


def pack_archive(kind: str, settings: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Bytes of such a file."""
    stored = {name: _storable(array) for name, array in arrays.items()}
    meta = {"kind": kind, "version": FORMAT_VERSION, "settings": dict(settings)}
    header: dict[str, Any] = {"__metadata__": {"priormtl": _to_json(meta)}}
    offset = 0
    for name, array in stored.items():
        header[name] = _entry(array, offset)
        offset += array.nbytes
    header["digest"] = _entry(np.zeros(DIGEST_BYTES, np.uint8), offset)
    text = _to_json(header).encode()
    text += b" " * (-len(text) % 8)  # arrays start at a multiple of 8
    body = b"".join(array.tobytes() for array in stored.values())
    content = struct.pack("<Q", len(text)) + text + body
    return content + _digest(content)


def unpack_archive(
    content: bytes, kind: str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Settings and arrays in the bytes of such a file."""
    header, start = _read_header(content)
    if _digest(content[:-DIGEST_BYTES]) != content[-DIGEST_BYTES:]:
        raise ModelFileError(
            "the file is damaged or was changed: its digest does not match; "
            "use an intact copy or save the model again."
        )
    meta = _read_meta(header.pop("__metadata__", None), kind)
    header.pop("digest", None)
    body = memoryview(content)[start : len(content) - DIGEST_BYTES]
    arrays = {name: _read_array(name, entry, body) for name, entry in header.items()}
    _refuse_overlap([entry["data_offsets"] for entry in header.values()], len(body))
    return meta["settings"], arrays


def _read_header(content: bytes) -> tuple[dict[str, Any], int]:
    if len(content) < LENGTH_BYTES + 2 + DIGEST_BYTES:
        raise ModelFileError("the file is too short to be a priormtl file.")
    (length,) = struct.unpack_from("<Q", content)
    start = LENGTH_BYTES + length
    if length > MOST_HEADER_BYTES or start + DIGEST_BYTES > len(content):
        raise ModelFileError("not a priormtl file, or it was cut off.")
    header = _from_json(content[LENGTH_BYTES:start])
    if not isinstance(header, dict):
        raise ModelFileError("not a priormtl file.")
    return header, start


def _read_meta(metadata: Any, kind: str) -> dict[str, Any]:
    text = metadata.get("priormtl") if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise ModelFileError("not a priormtl file.")
    meta = _from_json(text)
    if not isinstance(meta, dict) or not isinstance(meta.get("settings"), dict):
        raise ModelFileError("not a priormtl file.")
    if type(meta.get("version")) is not int or meta["version"] != FORMAT_VERSION:
        raise ModelFileError(
            f"the file has format {meta.get('version')!r}, this version reads "
            f"{FORMAT_VERSION}: upgrade priormtl."
        )
    if meta.get("kind") != kind:
        raise ModelFileError(f"the file holds {meta.get('kind')!r}, not {kind!r}.")
    return meta


def _read_array(name: str, entry: Any, body: memoryview) -> np.ndarray:
    """View the bytes that an entry names, after checking that they are its own."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ModelFileError(f"array {name!r} is not described as it must be.")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        raise ModelFileError(f"array {name!r} has an impossible shape or place.")
    if not isinstance(entry["dtype"], str) or entry["dtype"] not in DTYPES:
        raise ModelFileError(f"array {name!r} has an unknown type.")
    dtype = np.dtype(DTYPES[entry["dtype"]])
    begin, end = offsets
    size = math.prod(shape) * dtype.itemsize
    if not 0 <= begin <= end <= len(body) or end - begin != size:
        raise ModelFileError(f"array {name!r} does not lie inside the file.")
    if math.prod(max(1, side) for side in shape) > MOST_FILE_BYTES:
        raise ModelFileError(f"array {name!r} has an impossible shape or place.")
    return np.frombuffer(body[begin:end], dtype=dtype).reshape(shape).copy()


def _refuse_overlap(places: list[list[int]], size: int) -> None:
    """Arrays must follow one another from the first byte to the last."""
    end = 0
    for begin, stop in sorted(places):
        if begin != end:
            raise ModelFileError("its arrays do not fill the file.")
        end = stop
    if end != size:
        raise ModelFileError("its arrays do not fill the file.")


def _are_sizes(values: Any) -> bool:
    return (
        isinstance(values, list)
        and len(values) <= 8
        and all(type(v) is int and 0 <= v <= MOST_FILE_BYTES for v in values)
    )


def _storable(array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array)
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _entry(array: np.ndarray, offset: int) -> dict[str, Any]:
    return {
        "dtype": NAMES[array.dtype],
        "shape": list(array.shape),
        "data_offsets": [offset, offset + array.nbytes],
    }


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=DIGEST_BYTES, person=b"priormtl").digest()


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _from_json(text: bytes | str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_distinct)
    except (ValueError, RecursionError):
        raise ModelFileError("not a priormtl file, or it was cut off.") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Table of the pairs; a key that comes twice is refused."""
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a key comes twice")
    return table
