"""A line while a command is silent, which gives way to whatever is said."""

import os

import pytest

from priormtl.cli import heartbeat
from priormtl.cli.heartbeat import CLEAR, Heartbeat, beating, write_ascii


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(heartbeat, "monotonic", lambda: now[0])
    return now


def test_nothing_is_said_of_a_short_silence(clock):
    said = []
    heart = Heartbeat(said.append)
    clock[0] = 0.9
    heart.look()
    heart.give_way()
    assert said == []


def test_a_long_silence_is_counted_from_the_beginning(clock):
    said = []
    heart = Heartbeat(said.append)
    for seconds in (1.0, 2.0):
        clock[0] = seconds
        heart.look()
    assert said == ["\r| working, 1 s", "\r/ working, 2 s"]


def test_it_gives_way_once_and_waits_again(clock):
    said = []
    heart = Heartbeat(said.append)
    clock[0] = 1.5
    heart.look()
    heart.give_way()
    heart.give_way()
    clock[0] = 2.4
    heart.look()
    assert said == ["\r| working, 2 s", CLEAR]


def test_it_ends_with_the_work(clock):
    said = []
    heart = Heartbeat(said.append)
    clock[0] = 5.0
    with beating(heart):
        heart.look()
    assert said[-1] == CLEAR


def test_a_terminal_that_is_gone_needs_no_line():
    ours, theirs = os.pipe()
    write_ascii(theirs, "a")
    assert os.read(ours, 9) == b"a"
    os.close(ours)
    write_ascii(theirs, "b")
    os.close(theirs)
