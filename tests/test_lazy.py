"""cached_property: computed once, and no thread waits for another."""

from threading import Barrier, Thread

from priormtl._lazy import cached_property


class Slow:
    count = 0

    def __init__(self, barrier=None):
        self.barrier = barrier

    @cached_property
    def value(self):
        """Something."""
        self.count += 1
        if self.barrier is not None:
            self.barrier.wait(timeout=120)
        return [1]


def test_it_is_computed_once():
    slow = Slow()
    assert slow.value is slow.value
    assert slow.count == 1
    assert Slow.value.__doc__ == "Something."


def test_instances_do_not_wait_for_each_other():
    # With one lock for all, the second thread could never come to the barrier.
    barrier = Barrier(2)
    slows = [Slow(barrier), Slow(barrier)]
    threads = [Thread(target=getattr, args=(slow, "value")) for slow in slows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not barrier.broken
    assert [slow.value for slow in slows] == [[1], [1]]
