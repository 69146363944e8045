"""From columns of a table to features: terms, and the design that they make up."""

from priormtl.design.columns import StrayTextError, read_times, refuse_strays
from priormtl.design.crossed import Crossed
from priormtl.design.frames import (
    as_frame,
    build_frame,
    column_names,
    find_frame_library,
)
from priormtl.design.learning import learn_table
from priormtl.design.splines import Curves, Expansion
from priormtl.design.terms import (
    POLICIES,
    Categories,
    Curve,
    Design,
    Encoded,
    Gap,
    Levels,
    Line,
    Term,
    learn_plain,
    quote_clashes,
)
