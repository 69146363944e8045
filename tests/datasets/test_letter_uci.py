"""Letters of UCI: the same pairs, 16 features."""

import numpy as np
import pytest

from fake_originals import write_letter_uci
from priormtl.datasets import load_letter_uci
from priormtl.datasets.letter_uci import convert_letter_uci
from priormtl.exceptions import DataFileError


def test_counts(data_home):
    data = load_letter_uci(data_home=data_home)
    assert data.task_names[0] == "A vs G"
    assert data.X.shape[1] == 16
    assert (data.X.min(), data.X.max()) == (0, 15)
    sizes = np.unique(data.label, return_counts=True)[1]
    assert len(sizes) == 13
    assert (sizes >= 734).all()
    assert (sizes <= 813).all()


def test_a_small_table_is_converted(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "X": rng.integers(0, 16, (7, 16)).astype(np.uint8),
        "letter": rng.integers(0, 26, 7).astype(np.uint8),
    }
    made = convert_letter_uci(write_letter_uci(tmp_path, arrays))
    for name, array in arrays.items():
        assert made[name].dtype == array.dtype
        assert np.array_equal(made[name], array)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "a letter and 16 integers"),
        ("A,1,2\n", "a letter and 16 integers"),
        ("a" + ",1" * 16, "a letter from A to Z"),
        ("A" + ",1.5" * 16, "features must hold whole numbers"),
        ("A" + ",x" * 16, "features must hold numbers"),
    ],
)
def test_other_texts_are_refused(tmp_path, text, match):
    path = tmp_path / "letter-recognition.data"
    path.write_text(text, encoding="ascii")
    with pytest.raises(DataFileError, match=match):
        convert_letter_uci([path])
