"""Files: two of them, whole, the same bytes each time."""

import os

import matplotlib as mpl
import numpy as np
import pytest

from priormtl.plotting import plot_roc_curves, plot_surface, save_figure


def draw():
    fpr = np.linspace(0, 1, 20)
    return plot_roc_curves(fpr, np.stack([fpr**0.1, fpr**0.3]), zoom=0.2).figure


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save_figure(draw(), tmp_path_factory.mktemp("figures") / "roc.v1")


def test_both_files_are_what_they_are_called(saved):
    svg, png = saved
    assert [path.name for path in saved] == ["roc.v1.svg", "roc.v1.png"]
    assert svg.read_text(encoding="utf-8").startswith("<?xml")
    assert png.read_bytes().startswith(b"\x89PNG")


def test_the_same_figure_gives_the_same_bytes(saved, tmp_path):
    with mpl.rc_context({"svg.hashsalt": "other", "savefig.dpi": 30}):
        again = save_figure(draw(), tmp_path / "again")
    contents = [[path.read_bytes() for path in paths] for paths in (saved, again)]
    assert contents[0] == contents[1]


def test_images_inside_are_the_same_too(tmp_path):
    values = np.arange(6.0).reshape(2, 3)
    contents = []
    for name in ("a", "b"):
        ax = plot_surface(np.arange(3.0), np.arange(2.0), values, labels=("x", "y"))
        contents.append(save_figure(ax.figure, tmp_path / name)[0].read_bytes())
    assert contents[0] == contents[1]


def test_no_date_and_no_machine_is_written(saved):
    text = saved[0].read_text(encoding="utf-8")
    assert "dc:date" not in text
    assert os.fspath(saved[0].parent) not in text


def test_a_failed_write_leaves_the_old_files_alone(saved, monkeypatch, tmp_path):
    paths = save_figure(draw(), tmp_path / "kept")
    before = [path.read_bytes() for path in paths]

    def refuse(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="disk full"):
        save_figure(draw(), tmp_path / "kept")
    assert [path.read_bytes() for path in paths] == before
    assert sorted(tmp_path.iterdir()) == sorted(paths)
