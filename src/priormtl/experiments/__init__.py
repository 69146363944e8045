"""The paper's experiments: protocol, methods, units of work, and their results."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from priormtl.experiments.methods import METHODS, Method, Training
    from priormtl.experiments.reproduction import PLANS, Request, plan, reproduce
    from priormtl.experiments.runner import Store, run

__all__ = [
    "METHODS",
    "PLANS",
    "Method",
    "Request",
    "Store",
    "Training",
    "plan",
    "reproduce",
    "run",
]

for package in ("matplotlib", "pebble", "pyarrow", "statsmodels"):
    if find_spec(package) is None:
        raise ModuleNotFoundError(
            f"priormtl.experiments needs {package}: pip install 'priormtl[reproduce]'.",
            name=package,
        )


def __getattr__(name: str) -> object:
    # Loaded at first use: processes of the runner need no tables and no matplotlib.
    for page in ("runner", "methods", "reproduction") if name in __all__ else ():
        names = vars(import_module(f"priormtl.experiments.{page}"))
        if name in names:
            return names[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
