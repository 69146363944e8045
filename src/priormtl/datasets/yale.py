"""Yale: faces of 15 people, one task per pair of the first eight."""

from itertools import combinations

from priormtl.datasets.faces import CROPS, SIDE, convert_faces
from priormtl.datasets.files import Expected, Folder, Source, read_arrays
from priormtl.datasets.task_set import TaskSet, name_pixels, pair_classes

__all__ = ["YALE", "load_yale"]

SUBJECTS = 8
DESCRIPTION = (
    "Faces of the first 8 of 15 people, 11 images each, 32 x 32 grey pixels: one task "
    "for each of the 28 pairs of people."
)
QUIRKS = (
    "More pixels (1024) than images (88); grey values from 0 to 255.",
    "An image stands in 7 tasks: split images, not rows (see find).",
    "Images of a person come in one order: centre light, glasses, happy, left light, "
    "no glasses, normal, right light, sad, sleepy, surprised, wink.",
)


def load_yale(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load 28 pairs of people: 88 images, 616 rows, 1024 pixels, classification.

    Parameters are those of :func:`load_school`. Tasks are "subject 0 vs 1" and so on;
    the second one named is +1.
    """
    arrays = read_arrays(YALE, data_home=data_home, verify=verify)
    kept = arrays["subject"] < SUBJECTS
    label = arrays["subject"][kept]
    pairs = list(combinations(range(SUBJECTS), 2))
    sample, y, code = pair_classes(label, pairs)
    return TaskSet(
        name=YALE.name,
        kind="classification",
        originals=arrays["X"][kept],
        sample=sample,
        y=y,
        code=code,
        feature_names=name_pixels(SIDE, SIDE),
        task_names=tuple(f"subject {a} vs {b}" for a, b in pairs),
        description=DESCRIPTION,
        quirks=QUIRKS,
        source=YALE.origin,
        classes=tuple((f"subject {a}", f"subject {b}") for a, b in pairs),
        label=label,
        image_shape=(SIDE, SIDE),
    )


YALE = Source(
    name="yale",
    title="Yale faces",
    file="yale.npz",
    arrays={
        "X": Expected(
            (165, 1024),
            "|u1",
            "eefdae32a21b527231c3015ce114d800cb054114134a9ef5369415cad9445715",
        ),
        "subject": Expected(
            (165,),
            "|u1",
            "4d85758730d163cda78f6d4c59908a5d255187a1b41508d2bc4a041d69aad20f",
        ),
    },
    shape=(616, 1024),
    n_tasks=28,
    kind="classification",
    origin=CROPS,
    originals=("Yale_32x32.mat",),
    convert=convert_faces,
)
