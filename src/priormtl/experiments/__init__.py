"""What the paper claims, measured again: units of work, rows of results, pages."""

from priormtl.experiments.methods import METHODS, Method, Training
from priormtl.experiments.plans import PLANS, plan
from priormtl.experiments.reproduce import EVERYTHING, Report, Request, reproduce
from priormtl.experiments.runner import Event, Outcome, Unit, collect, run
from priormtl.experiments.store import Store

__all__ = [
    "EVERYTHING",
    "METHODS",
    "PLANS",
    "Event",
    "Method",
    "Outcome",
    "Report",
    "Request",
    "Store",
    "Training",
    "Unit",
    "collect",
    "plan",
    "reproduce",
    "run",
]
