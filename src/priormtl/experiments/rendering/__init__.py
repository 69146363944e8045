"""Rows of results to tables, figures and a page, computing no experiment."""
