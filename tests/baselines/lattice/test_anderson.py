import numpy as np

from priormtl.baselines.lattice.anderson import Anderson


def test_one_point_gives_no_guess():
    memory = Anderson().remember(np.zeros(2), np.ones(2))
    assert memory.guess(np.ones(2)) is None


def test_affine_steps_are_followed_to_their_end():
    A = np.diag([0.9, 0.5, 0.2])
    end = np.array([1.0, -2.0, 3.0])
    memory, point = Anderson(), np.zeros(3)
    for _ in range(4):
        step = (A - np.eye(3)) @ (point - end)
        memory, point = memory.remember(point, step), point + step
    np.testing.assert_allclose(memory.guess(np.ones(3)), end)


def test_equal_steps_do_no_harm():
    memory = Anderson().remember(np.zeros(2), np.ones(2))
    memory = memory.remember(np.ones(2), np.ones(2))
    np.testing.assert_array_equal(memory.guess(np.ones(2)), [2.0, 2.0])


def test_old_points_are_forgotten():
    memory = Anderson()
    for k in range(20):
        memory = memory.remember(np.full(2, float(k)), np.ones(2))
    assert len(memory.points) == 6
