"""build_content: from a model, rows and an audit to all that a report says."""

from typing import Any

from priormtl.reports.benefit import answer_benefit
from priormtl.reports.certificates import answer_certificate
from priormtl.reports.content import Content, Table
from priormtl.reports.facts import list_facts
from priormtl.reports.features import answer_features, feature_table, rank_features
from priormtl.reports.fits import Fits
from priormtl.reports.learned import Learned
from priormtl.reports.limits import cut_block, pick_rows, pick_tasks
from priormtl.reports.outliers import answer_outliers
from priormtl.reports.quality import answer_quality
from priormtl.reports.relations import relation_table
from priormtl.reports.searches import Search, read_search, search_table
from priormtl.reports.tasks import task_table
from priormtl.reports.wording import spell_label
from priormtl.tables import count_words

__all__ = ["build_content"]


def build_content(
    learned: Learned, fits: Fits | None, audit: Any, title: str | None
) -> Content:
    """Answers first, then the tables behind them, each cut to its place."""
    search = read_search(learned.model)
    features, tasks = feature_table(learned), task_table(learned, fits)
    listed, kept = pick_rows(features), pick_tasks(tasks)
    findings = (
        answer_quality(learned, search, fits),
        answer_features(learned),
        answer_benefit(learned, search, audit),
        answer_outliers(learned),
        answer_certificate(learned.model),
    )
    tables = (
        features.take(listed),
        tasks.take(kept),
        *_further_tables(learned, search, audit),
    )
    return Content(
        _title(learned) if title is None else spell_label(title),
        list_facts(learned),
        findings,
        tables,
        cut_block(learned, rank_features(learned)[listed], kept, tables),
        "" if fits is None else fits.metric,
    )


def _further_tables(
    learned: Learned, search: Search | None, audit: Any
) -> tuple[Table, ...]:
    relations = relation_table(learned, audit)
    tried = None if search is None else search_table(search)
    found = [table for table in (relations, tried) if table is not None]
    return tuple(table.take(pick_rows(table)) for table in found)


def _title(learned: Learned) -> str:
    tasks, features = len(learned.tasks), len(learned.features)
    return (
        f"What {count_words(tasks, 'task')} share in {count_words(features, 'feature')}"
    )
