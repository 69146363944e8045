"""Whoever says which tables it has is shown in every layout."""

from priormtl.tables import (
    Tabled,
    build_table,
    to_html,
    to_latex,
    to_markdown,
    to_text,
)

TABLES = [
    build_table("Fruit", ("name", "weight"), [("apple", 1.5), ("<pear>", 2.0)]),
    build_table("Nothing", ("name", "weight"), []),
]


class Basket(Tabled):
    def _tables(self):
        return TABLES


def test_every_layout_holds_every_table():
    basket = Basket()
    for layout, one in (
        (basket.to_text(), to_text),
        (basket.to_html(), to_html),
        (basket.to_latex(), to_latex),
        (basket.to_markdown(), to_markdown),
        (basket._repr_html_(), to_html),
    ):
        assert all(one(table) in layout for table in TABLES)


def test_screens_show_text():
    assert str(Basket()) == repr(Basket()) == Basket().to_text()
