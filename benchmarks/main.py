"""Measure all workloads and write docs/benchmarks: run by ``make bench``."""

import argparse
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from time import perf_counter

from benchmarks.data import MissingDataError
from benchmarks.machine import (
    Code,
    describe_code,
    describe_commit,
    describe_machine,
    load_average,
)
from benchmarks.report import Bar, Report, note_run, write_index, write_report

FAMILIES = ("counts", "gamma", "multinomial", "negative_binomial", "poisson", "sums")
ASIDE = (  # what fits of numbers in memory do without
    *("data/device", "data/on_disk", "solvers/device", "priors/files"),
    *("losses/outliers", *(f"losses/{name}" for name in FAMILIES)),
)
ROOMS = ("data", "losses", "penalties", "priors", "problem", "solvers", "model")
MODEL = ("design", "estimators", "fitted", "reml", "selection", "trees")
SOLVERS = Code(ROOMS, ASIDE)
DEFAULT = Code((*ROOMS, *MODEL), ASIDE)
TARGETS = Code((*ROOMS, *MODEL), ASIDE[:5])  # numbers, counts, amounts, classes
# What each page measures: it is older than the code if this has changed since.
WORKLOADS = {
    "methods": SOLVERS,
    "shared_x": SOLVERS,
    "own_x": SOLVERS,
    "images": SOLVERS,
    "logistic": SOLVERS,
    "families": Code((*ROOMS, "reml"), ASIDE[:5]),
    "nuclear": SOLVERS,
    "cross_validation": Code((*ROOMS, "selection"), ASIDE),
    "growth": SOLVERS,
    "latency": Code((*ROOMS, "estimators"), ASIDE),
    "mixed_model": DEFAULT,
    "out_of_core": Code(("data", "engines"), ASIDE[:1]),
    "tables": DEFAULT,
    "other_tables": DEFAULT,
    "intervals": DEFAULT,
    "calibration": Code((*DEFAULT.rooms, "audits"), ASIDE[:4]),
    "statements": DEFAULT,
}

# Pages with commands of their own; these say when they measured (--measured).
PAGES = {
    "questions": DEFAULT,
    "strangers": DEFAULT,
    "width": DEFAULT,
    "counts": TARGETS,
    "classes": TARGETS,
    "laplace": Code(("data", "losses", "reml"), ASIDE[:2]),
    "drift": Code(("data", "reml"), ASIDE[:2]),
    "gpu": Code(ROOMS, ASIDE[3:]),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for; whatever fails says so on its page."""
    options = _read_options(arguments)
    if options.list:
        print("\n".join(WORKLOADS))
        return 0
    for name in options.measured or ():
        note_run(name, PAGES[name])
    if options.index or options.measured:
        write_index(WORKLOADS, PAGES)
        return 0
    machine = describe_machine()
    kind = "quick run" if options.quick else "full run"
    for name in options.only or WORKLOADS:
        begin, load, commit = perf_counter(), load_average(), describe_commit()
        print(f"{name} …", flush=True)
        report = _measure(name, options.quick)
        load = f"{load} before and {load_average()} after"
        run = {"kind": kind, "commit": commit, "load": load, "machine": machine}
        run["code"] = describe_code(WORKLOADS[name])
        write_report(name, report, run)
        print(f"{name}: {perf_counter() - begin:.0f} s", flush=True)
    write_index(WORKLOADS, PAGES)
    return 0


def _measure(name: str, quick: bool) -> Report:
    workload = import_module(f"benchmarks.workloads.{name}")
    try:
        return workload.measure(quick)
    except (MissingDataError, NotImplementedError) as reason:
        return _absent(workload.TITLE, str(reason))
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        return _absent(workload.TITLE, f"failed: {type(error).__name__}")


def _absent(title: str, reason: str) -> Report:
    print(f"  {reason}", flush=True)
    return Report(title, "", [Bar("all", reason, None)], [])


def _read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a part, in minutes")
    parser.add_argument(
        "--only", action="append", choices=WORKLOADS, help="one workload"
    )
    parser.add_argument("--list", action="store_true", help="name the workloads")
    parser.add_argument(
        "--index", action="store_true", help="write the list of goals, measure nothing"
    )
    parser.add_argument(
        "--measured",
        action="append",
        choices=PAGES,
        help="a page whose own command was just run: note the code that it measured",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
