"""From columns of a table to features: terms, and the design that they make up."""

from priormtl.design.columns import StrayTextError as StrayTextError
from priormtl.design.columns import refuse_strays as refuse_strays
from priormtl.design.frames import (
    as_frame as as_frame,
)
from priormtl.design.frames import (
    build_frame as build_frame,
)
from priormtl.design.frames import (
    column_names as column_names,
)
from priormtl.design.frames import (
    find_frame_library as find_frame_library,
)
from priormtl.design.learning import learn_table as learn_table
from priormtl.design.splines import Curves as Curves
from priormtl.design.splines import Expansion as Expansion
from priormtl.design.terms import (
    POLICIES as POLICIES,
)
from priormtl.design.terms import (
    Categories as Categories,
)
from priormtl.design.terms import (
    Curve as Curve,
)
from priormtl.design.terms import (
    Design as Design,
)
from priormtl.design.terms import (
    Encoded as Encoded,
)
from priormtl.design.terms import (
    Gap as Gap,
)
from priormtl.design.terms import (
    Line as Line,
)
from priormtl.design.terms import (
    Term as Term,
)
from priormtl.design.terms import (
    learn_plain as learn_plain,
)
from priormtl.design.terms import (
    quote_clashes as quote_clashes,
)
