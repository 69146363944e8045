"""Rows of results to tables, figures and a page, computing no experiment."""

from priormtl.experiments.rendering.measurements import Measurements, overlap_ratio
from priormtl.experiments.rendering.page import Facts, Results, render, render_page
from priormtl.experiments.rendering.text import join_words

__all__ = [
    "Facts",
    "Measurements",
    "Results",
    "join_words",
    "overlap_ratio",
    "render",
    "render_page",
]
