"""Rows of results to tables, figures and a page, computing no experiment."""

from priormtl.experiments.rendering.measurements import Measurements
from priormtl.experiments.rendering.page import (
    Facts,
    Results,
    join_words,
    render,
    render_page,
)
