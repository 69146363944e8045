"""Faces of 32 x 32 pixels as Deng Cai cropped them: the format of Yale and ORL."""

from collections.abc import Sequence
from pathlib import Path

from priormtl.datasets.files import Arrays
from priormtl.datasets.originals import (
    first_of,
    flip_pixels,
    read_mat,
    take_files,
    to_integers,
)
from priormtl.exceptions import DataFileError

__all__ = ["CROPS", "SIDE", "convert_faces"]

SIDE = 32
CROPS = "Deng Cai's face data, cad.zju.edu.cn/home/dengcai/Data/FaceData.html"


def convert_faces(originals: Sequence[Path]) -> Arrays:
    """Arrays from a MATLAB file: ``fea``, pixels column by column, and ``gnd``."""
    (path,) = take_files(originals, 1, "Yale_32x32.mat or ORL_32x32.mat")
    variables = read_mat(path)
    pixels = to_integers("fea", first_of(path, variables, "fea", "X"), "uint8")
    person = to_integers("gnd", first_of(path, variables, "gnd", "Y").ravel(), "uint8")
    if pixels.ndim != 2 or pixels.shape != (len(person), SIDE**2) or not len(person):
        raise DataFileError(
            f"{path} must hold {SIDE**2} pixels and one subject per image: got pixels "
            f"{pixels.shape} and {len(person)} subjects."
        )
    return {"X": flip_pixels(pixels, SIDE, SIDE), "subject": person - person.min()}
