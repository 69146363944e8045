"""ORL: faces of 40 people, each against the rest."""

import numpy as np

from priormtl.datasets.faces import CROPS, SIDE, convert_faces
from priormtl.datasets.files import Expected, Folder, Source, read_arrays
from priormtl.datasets.task_set import TaskSet, name_pixels

__all__ = ["ORL", "load_orl"]

SUBJECTS = 40
DESCRIPTION = (
    "Faces of 40 people, 10 images each, 32 x 32 grey pixels: one task for each person "
    "against all others, on a shared X."
)
QUIRKS = (
    "More pixels (1024) than images (400); grey values from 2 to 235.",
    "Each task has 10 positive images and 390 negative ones: split within subjects "
    "(see label).",
)


def load_orl(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load 40 people, each against the rest: 400 images, 1024 pixels, classification.

    Parameters are those of :func:`load_school`; ``y`` is (400, 40), +1 in the column
    of an image's own person, ``task`` None.
    """
    arrays = read_arrays(ORL, data_home=data_home, verify=verify)
    label = arrays["subject"]
    own = label[:, np.newaxis] == np.arange(SUBJECTS)
    names = tuple(f"subject {i:02d}" for i in range(SUBJECTS))
    return TaskSet(
        name=ORL.name,
        kind="classification",
        originals=arrays["X"],
        sample=np.arange(len(label)),
        y=np.where(own, 1.0, -1.0),
        code=None,
        feature_names=name_pixels(SIDE, SIDE),
        task_names=names,
        description=DESCRIPTION,
        quirks=QUIRKS,
        source=ORL.origin,
        classes=tuple(("others", name) for name in names),
        label=label,
        image_shape=(SIDE, SIDE),
    )


ORL = Source(
    name="orl",
    title="ORL faces (AT&T)",
    file="orl.npz",
    arrays={
        "X": Expected(
            (400, 1024),
            "|u1",
            "60429f9a99b472d551f8ae4ea6b5bcbbe06b41d2fb8e6d4e44325593736c807a",
        ),
        "subject": Expected(
            (400,),
            "|u1",
            "1a66f9cbf8ec4ca91567f48b6b8a5ed11e6f7d9e0ee36319bbe26d42e89ebe36",
        ),
    },
    shape=(400, 1024),
    n_tasks=SUBJECTS,
    kind="classification",
    origin=CROPS,
    originals=("ORL_32x32.mat",),
    convert=convert_faces,
)
