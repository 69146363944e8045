"""The paper's experiments: protocol, methods, units of work, and their results."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

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

# Loaded at first use: processes of the runner need no tables and no matplotlib.
_PAGES = ("runner", "methods", "reproduction")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for page in _PAGES:
            module = import_module(f"priormtl.experiments.{page}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
