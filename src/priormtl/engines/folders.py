"""Statistics in a folder: XᵀX of all tasks as one file to be mapped, and all else.

``xx.npy`` is a NumPy file (m, d, d), tasks in order; with k folds (m, k, d, d), so that
those of a task, which are added up, lie side by side. The archive beside it is small
and guarded by a digest; the matrices are only checked for their size, since a look at
each would take as long as a pass over the data.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np

from priormtl._arrays import Index
from priormtl.archive import read_archive, write_archive
from priormtl.data import (
    Encoding,
    TaskStatistics,
    read_encoding,
    tasks_from_plain,
    tasks_to_plain,
)
from priormtl.engines.partial import Summary
from priormtl.engines.survey import Survey
from priormtl.exceptions import ModelFileError

__all__ = ["StatisticsFolder", "open_shards"]

KIND = "sharded statistics"
MATRICES, OTHERS = "xx.npy", "statistics"
DAMAGES = (LookupError, TypeError, ValueError, AttributeError, OSError, EOFError)
SMALL = ("weight", "x_mean", "y_mean", "xy", "yy")


class StatisticsFolder:
    """A folder that is filled by some tasks at a time, by any thread."""

    def __init__(self, folder: Path, survey: Survey, folds: int | None = None) -> None:
        self._folder, self._survey, self._folds = folder, survey, folds
        self._features = survey.layout.features()
        m, d, k = len(survey.tasks), len(self._features), folds or 1
        shapes = {"weight": (k, m), "x_mean": (k, m, d), "y_mean": (k, m)}
        shapes |= {"xy": (k, m, d), "yy": (k, m)}
        self._arrays = {name: np.zeros(shape) for name, shape in shapes.items()}
        self._lock = Lock()
        # Written, not mapped: a full disk is an error, not the end of the process.
        self._file = (folder / MATRICES).open("wb")
        shape = (m, d, d) if folds is None else (m, k, d, d)
        header = {"descr": "<f8", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)
        self._start, self._bytes = self._file.tell(), 8 * k * d * d
        self._file.truncate(self._start + m * self._bytes)

    def write(self, places: Index, parts: Sequence[TaskStatistics]) -> None:
        """Statistics of some tasks, whose places among all these are, by fold."""
        for name, array in self._arrays.items():
            array[:, places] = [getattr(part, name) for part in parts]
        grams = [part.gram() for part in parts]
        with self._lock:
            for place, *matrices in zip(places.tolist(), *grams, strict=True):
                self._file.seek(self._start + place * self._bytes)
                for matrix in matrices:
                    self._file.write(np.ascontiguousarray(matrix, "<f8").data)

    def finish(self, encoding: Encoding | None = None) -> None:
        """Bring all to disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        survey = self._survey
        settings = {
            **tasks_to_plain(survey.tasks),
            "features": list(self._features),
            "encoding": encoding and encoding.to_plain(),
            "categories": survey.layout.categories(),
            "rows": survey.rows,
            "dropped": survey.dropped,
            "folds": self._folds,
        }
        counts = np.array([survey.counts[task] for task in survey.tasks], np.int64)
        arrays = self._arrays | {"counts": counts}
        if self._folds is None:
            arrays |= {name: self._arrays[name][0] for name in SMALL}
        write_archive(self._folder / OTHERS, KIND, settings, arrays)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()


def open_shards(folder: str | os.PathLike[str]) -> Summary:
    """Open what ``summarize_sharded`` wrote, without reading the matrices.

    Parameters
    ----------
    folder : path
        Folder of statistics. It must stay as it is while they are used.

    Returns
    -------
    Summary
        The matrices of ``parts`` (the folds, or all rows where there are none) are
        mapped into memory: some are read when they are needed, and left when others
        are. Those of ``whole`` are the sums of the parts, formed as they are read.
    """
    path = Path(folder)
    if not (path / OTHERS).is_file():
        raise ModelFileError(f"{path} is not a folder of statistics.")
    settings, arrays = read_archive(path / OTHERS, KIND)
    try:
        return _build(settings, arrays, path / MATRICES)
    except DAMAGES:
        raise ModelFileError(
            f"{path} does not hold whole statistics; make them again."
        ) from None


def _build(
    settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray], matrices: Path
) -> Summary:
    tasks, features = tasks_from_plain(settings), tuple(settings["features"])
    encoding = read_encoding(settings.get("encoding"), features)
    known: dict[str, Any] = {"features": features, "encoding": encoding}
    xx = np.load(matrices, mmap_mode="r")
    if len(xx) != len(tasks) or not xx.flags.c_contiguous:
        raise ValueError("matrices of another order")
    folds = _by_fold(settings.get("folds"), arrays, xx)
    parts = tuple(TaskStatistics(**own, tasks=tasks, **known) for own in folds)
    for part in parts:
        part.check_shapes()
    counts = dict(zip(tasks, arrays["counts"].tolist(), strict=True))
    categories = {name: tuple(v) for name, v in settings["categories"].items()}
    rows, dropped = int(settings["rows"]), int(settings["dropped"])
    return Summary(parts, categories, counts, rows, dropped)


def _by_fold(
    folds: int | None, arrays: Mapping[str, np.ndarray], xx: np.ndarray
) -> list[dict[str, Any]]:
    """Arrays of each fold."""
    small = {name: arrays[name] for name in SMALL}
    if folds is None:
        return [{**small, "xx": xx}]
    if {xx.shape[1], *map(len, small.values())} != {folds}:
        raise ValueError("other folds")
    return [
        {name: array[k] for name, array in small.items()} | {"xx": xx[:, k]}
        for k in range(folds)
    ]
