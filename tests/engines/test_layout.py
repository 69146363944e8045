"""Slots of columns: their order, their marks, and what joins them."""

import pytest

from priormtl.engines.layout import Column, Layout, Slot, join_layouts

SIZE, MARKED = Column("size"), Column("size", gaps=True)
COLOUR = Column("colour", ("blue", "red"), gaps=True)


def test_slots_are_features_then_the_mark():
    layout = Layout((SIZE, COLOUR))
    assert layout.slots() == [
        Slot("size"),
        Slot("colour", "blue"),
        Slot("colour", "red"),
        Slot("colour", is_mark=True),
    ]
    assert layout.starts() == [0, 1, 4]
    assert [part.tolist() for part in layout.filled()] == [[1, 2], [3, 3], [1, 1]]
    assert layout.kept().tolist() == [0, 1, 2]
    assert layout.features() == ("size", "colour=blue", "colour=red")


def test_no_gaps_fill_nothing():
    assert [len(part) for part in Layout((SIZE,)).filled()] == [0, 0, 0]


def test_joined_layouts_hold_both():
    green = Column("colour", ("green",))
    joined = join_layouts(Layout((SIZE, COLOUR)), Layout((MARKED, green)))
    assert joined.columns == (MARKED, Column("colour", ("blue", "green", "red"), True))
    assert join_layouts(joined, Layout((SIZE, COLOUR))) == joined


def test_names_that_come_twice_are_refused():
    layout = Layout((Column("colour=red"), COLOUR))
    with pytest.raises(ValueError, match="two features have the name 'colour=red'"):
        layout.features()


def test_too_many_values_after_a_join_are_refused():
    halves = [Column("c", tuple(f"{side}{i}" for i in range(600))) for side in "ab"]
    with pytest.raises(ValueError, match="'c' holds more than 1000"):
        join_layouts(*(Layout((half,)) for half in halves))


def test_columns_in_another_order_are_refused():
    with pytest.raises(ValueError, match="over the same columns"):
        join_layouts(Layout((SIZE, COLOUR)), Layout((COLOUR, SIZE)))
