from itertools import accumulate, repeat

import pytest

from priormtl.solvers.first_order.momentum import ConstantMomentum, NesterovMomentum


def advanced(momentum, times):
    steps = accumulate(repeat(False, times), _advance, initial=momentum)
    return [step.amount for step in steps]


def _advance(momentum, wrong_way):
    return momentum.advance(wrong_way=wrong_way)


def test_nesterovs_sequence_begins_with_no_momentum_and_grows_towards_one():
    amounts = advanced(NesterovMomentum(), 2000)
    assert amounts[:2] == [0.0, 0.0]
    assert amounts == sorted(amounts)
    assert 0.998 < amounts[-1] < 1.0


def test_nesterovs_sequence_satisfies_its_recursion():
    momentum = NesterovMomentum()
    for _ in range(20):
        following = momentum.advance(wrong_way=False)
        assert following.t**2 - following.t == pytest.approx(momentum.t**2)
        assert following.amount == pytest.approx((momentum.t - 1) / following.t)
        momentum = following


def test_t_grows_at_least_like_half_the_steps():
    momentum = NesterovMomentum()
    for k in range(1, 200):
        assert momentum.t >= (k + 1) / 2
        momentum = momentum.advance(wrong_way=False)


def test_restart_begins_anew_only_when_the_move_went_uphill():
    running = NesterovMomentum(restart=True, t=5.0, amount=0.8)
    assert running.advance(wrong_way=True) == NesterovMomentum(restart=True)
    assert running.advance(wrong_way=False).amount > 0


def test_without_restart_nothing_stops_it():
    running = NesterovMomentum(restart=False, t=5.0, amount=0.8)
    assert running.advance(wrong_way=True) == running.advance(wrong_way=False)


@pytest.mark.parametrize(
    ("sigma", "smoothness", "amount"), [(1.0, 1.0, 0.0), (1.0, 4.0, 1 / 3), (1, 9, 0.5)]
)
def test_constant_momentum_follows_the_condition_number(sigma, smoothness, amount):
    momentum = ConstantMomentum.for_condition(sigma, smoothness)
    assert momentum.amount == pytest.approx(amount)
    assert momentum.advance(wrong_way=True) is momentum
