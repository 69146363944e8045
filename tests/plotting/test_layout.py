"""Layouts: joined nodes are near, parts apart, and the same graph is placed alike."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from priormtl.plotting.layout import place_nodes


def edges(kind):
    """Number of nodes, and both ends of each edge."""
    cells = np.arange(20).reshape(4, 5)
    return {
        "none": (3, [], []),
        "pair": (2, [0], [1]),
        "chain": (6, range(5), range(1, 6)),
        "star": (9, [0] * 8, range(1, 9)),
        "ring": (7, range(7), [*range(1, 7), 0]),
        "grid": (
            20,
            [*cells[:, :-1].ravel(), *cells[:-1].ravel()],
            [*cells[:, 1:].ravel(), *cells[1:].ravel()],
        ),
        "parts": (7, [0, 1, 4], [1, 2, 5]),
        "twice": (2, [0, 1], [1, 0]),
    }[kind]


def place(kind):
    n_nodes, first, second = edges(kind)
    ends = [np.array(list(side), dtype=np.intp) for side in (first, second)]
    return place_nodes(n_nodes, *ends), *ends


KINDS = ["none", "pair", "chain", "star", "ring", "grid", "parts", "twice"]


@pytest.mark.parametrize("kind", KINDS)
def test_edges_are_about_one_long_and_nodes_stand_apart(kind):
    positions, first, second = place(kind)
    assert np.isfinite(positions).all()
    lengths = np.linalg.norm(positions[first] - positions[second], axis=1)
    assert ((lengths > 0.6) & (lengths < 1.4)).all()
    assert pdist(positions).min() > 0.4


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_graph_is_placed_alike(kind):
    assert np.array_equal(place(kind)[0], place(kind)[0])


def test_chains_and_grids_lie_flat():
    chain, grid = place("chain")[0], place("grid")[0]
    assert np.ptp(chain[:, 1]) < 0.1 * np.ptp(chain[:, 0])
    rows, columns = grid[:, 1].reshape(4, 5), grid[:, 0].reshape(4, 5)
    assert np.ptp(rows, axis=1).max() < 0.3
    assert np.ptp(columns, axis=0).max() < 0.3


def test_parts_do_not_overlap():
    positions, *_ = place("parts")
    boxes = [positions[nodes] for nodes in ([0, 1, 2], [4, 5], [3], [6])]
    for k, one in enumerate(boxes):
        for other in boxes[k + 1 :]:
            apart = (one.max(0) < other.min(0)) | (other.max(0) < one.min(0))
            assert apart.any()


def test_an_empty_graph_has_no_places():
    none = np.zeros(0, dtype=np.intp)
    assert place_nodes(0, none, none).shape == (0, 2)
