"""Data sets: real ones, read from files, and synthetic ones."""

from priormtl.datasets.files import Source, digest_array, find_home
from priormtl.datasets.loaders import (
    SOURCES,
    Conversion,
    Finding,
    check_source,
    convert_original,
    load_letter,
    load_letter_uci,
    load_mnist,
    load_orl,
    load_sarcos,
    load_sarcos_one,
    load_school,
    load_yale,
)
from priormtl.datasets.task_set import (
    RelatedTasks,
    Rows,
    TaskSet,
    make_related_tasks,
)

__all__ = [
    "SOURCES",
    "Conversion",
    "Finding",
    "RelatedTasks",
    "Rows",
    "Source",
    "TaskSet",
    "check_source",
    "convert_original",
    "digest_array",
    "find_home",
    "load_letter",
    "load_letter_uci",
    "load_mnist",
    "load_orl",
    "load_sarcos",
    "load_sarcos_one",
    "load_school",
    "load_yale",
    "make_related_tasks",
]
