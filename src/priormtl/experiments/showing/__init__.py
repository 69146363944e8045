"""Rows of results to tables, figures and a page, computing no experiment."""

from priormtl.experiments.showing.comparisons import overlap_ratio
from priormtl.experiments.showing.files import Results, show, show_page
from priormtl.experiments.showing.measurements import Measurements
from priormtl.experiments.showing.page import Facts

__all__ = ["Facts", "Measurements", "Results", "overlap_ratio", "show", "show_page"]
