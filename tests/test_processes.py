"""Processes that help leave Ctrl-C to the one that began them."""

import signal
import subprocess
import sys

import pytest

from priormtl._machine import leaving_interrupts

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "pthread_sigmask"), reason="needs signal masks"
)
INTERRUPTS_ITSELF = (
    "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('lives')"
)


@pytest.fixture(autouse=True)
def interrupts_are_heard():
    """Python's own answer to Ctrl-C, which shells take from jobs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def begin():
    command = [sys.executable, "-c", INTERRUPTS_ITSELF]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_what_begins_inside_does_not_hear_of_it():
    with leaving_interrupts():
        done = begin()
    assert (done.returncode, done.stdout) == (0, "lives\n")


def test_what_begins_later_does():
    with leaving_interrupts():
        pass
    assert begin().returncode != 0


def test_an_interrupt_inside_comes_at_the_end():
    reached = []

    def work():
        with leaving_interrupts():
            signal.raise_signal(signal.SIGINT)
            reached.append("the end")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["the end"]
