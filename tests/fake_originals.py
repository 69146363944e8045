"""Files in the public formats of the originals, written from arrays of ours."""

import gzip
import struct

import numpy as np
from scipy.io import savemat


def as_cells(parts):
    cells = np.empty((1, len(parts)), dtype=object)
    for i, part in enumerate(parts):
        cells[0, i] = part
    return cells


def split_by(labels, *columns):
    """Parts of each column for each run of equal labels."""
    starts = np.flatnonzero(np.diff(labels)) + 1
    return [np.split(column, starts) for column in columns]


def write_school(folder, arrays):
    X, y = split_by(arrays["task"], arrays["X"].astype(float), arrays["y"][:, None])
    path = folder / "school.mat"
    savemat(path, {"X": as_cells(X), "Y": as_cells(y)})
    return [path]


def write_sarcos(folder, arrays):
    path = folder / "sarcos_inv_test.mat"
    savemat(path, {"sarcos_inv_test": np.hstack([arrays["X"], arrays["Y"]])})
    return [path]


def by_columns(pixels, height, width):
    images = pixels.reshape(-1, height, width)
    return np.stack([image.ravel(order="F") for image in images])


def write_faces(folder, arrays):
    path = folder / "faces_32x32.mat"
    subject = arrays["subject"][:, None].astype(float) + 1
    savemat(path, {"fea": by_columns(arrays["X"], 32, 32), "gnd": subject})
    return [path]


def write_idx(path, values):
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(
        f">{values.ndim}I", *values.shape
    )
    path.write_bytes(gzip.compress(header + values.tobytes(), mtime=0))


def write_mnist(folder, arrays):
    paths = [folder / "images-idx3-ubyte.gz", folder / "labels-idx1-ubyte.gz"]
    write_idx(paths[0], arrays["X"].reshape(-1, 28, 28))
    write_idx(paths[1], arrays["digit"])
    return paths


def write_letter(folder, arrays):
    """letter.data.gz, with words of fold 0 between those of other folds."""
    fold = np.where(arrays["train_part"], 0, 1 + arrays["word"] % 9)
    place = np.where(arrays["train_part"], 10 * arrays["word"], 1 + arrays["word"])
    lines = []
    for i in np.argsort(place, kind="stable"):
        fields = [
            i + 1,
            chr(97 + arrays["letter"][i]),
            -1,
            arrays["word"][i] + 1,
            arrays["position"][i] + 1,
            fold[i],
            *arrays["X"][i],
        ]
        lines.append("\t".join(map(str, fields)) + "\t\n")
    path = folder / "letter.data.gz"
    path.write_bytes(gzip.compress("".join(lines).encode(), 1, mtime=0))
    return [path]


def write_letter_mat(folder, arrays):
    """ocr_taskar.mat: a word's letters side by side, a bias of 1 under the pixels."""
    columns = by_columns(arrays["X"], 16, 8).astype(float)
    columns = np.hstack([columns, np.ones((len(columns), 1))])
    variables = {}
    for part, rows in (
        ("train", arrays["train_part"]),
        ("test", ~arrays["train_part"]),
    ):
        patterns, labels = split_by(
            arrays["word"][rows], columns[rows], arrays["letter"][rows]
        )
        variables[f"patterns_{part}"] = as_cells([word.T for word in patterns])
        variables[f"labels_{part}"] = as_cells([word[None] for word in labels])
    path = folder / "ocr_taskar.mat"
    savemat(path, variables)
    return [path]


def write_letter_uci(folder, arrays):
    path = folder / "letter-recognition.data"
    lines = [
        ",".join([chr(65 + letter), *map(str, row)])
        for letter, row in zip(arrays["letter"], arrays["X"].tolist(), strict=True)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return [path]


WRITERS = {
    "school": write_school,
    "sarcos": write_sarcos,
    "yale": write_faces,
    "mnist": write_mnist,
    "letter": write_letter,
    "letter_uci": write_letter_uci,
    "orl": write_faces,
}
