"""Results of an audit: frozen values, and their rendering as text and tables.

``PriorAudit`` holds one ``RelationAudit`` for each relation of the prior and, where
rows were held out, a ``PriorBenefit``. All renderings begin with the same sentences:
whether the prior helped, and which relations the data contradict.
"""

import json
from dataclasses import asdict, dataclass, fields, replace
from math import isnan

from priormtl._arrays import Array
from priormtl.archive import Settings
from priormtl.design import build_frame, find_frame_library
from priormtl.rendering import Table, Tabled, build_table, in_markdown
from priormtl.rendering import to_json as dump_json

KINDS = {
    "statement": "Statements about single features",
    "feature": "Relations between features",
}


@dataclass(frozen=True)
class RelationAudit:
    """One relation of the prior, and what the data say about it.

    ``kind`` is "statement" for signs, common and smooth effects of single features,
    "feature" for rows of D; ``sign`` is "nonnegative",
    "nonpositive", "common", "smooth", "similar", "opposite" or "combination" (any other
    row of D). Violations of signs are shares of tasks: those outside without the sign,
    and those at the bound.
    """

    kind: str
    relation: str  # in words
    first: str | None  # None for combinations
    second: str | None
    sign: str
    weight: float
    violation_before: float  # 0 … 1, without this kind of prior
    violation_after: float  # 0 … 1, in the model
    share: float  # of the kind's penalty
    sensitivity: float  # d objective / d log weight
    statistic: float  # squared disagreement over its expectation; NaN: unknown
    p_value: float  # of the statistic, if the relation holds; NaN: unknown
    verdict: str  # "agrees", "disagrees" or "cannot be judged"


@dataclass(frozen=True, eq=False)
class PriorBenefit:
    """Errors on held-out rows with the prior and without it, split by split."""

    metric: str  # what the errors are; smaller is better
    with_prior: Array  # (k,)
    without_prior: Array  # (k,)
    lams_with: Array  # (k,) strength of the row penalty in each split
    lams_without: Array
    change: float  # relative; negative: the prior helped
    low: float
    high: float
    level: float  # of the interval
    p_value: float
    verdict: str  # "helped", "no difference" or "harmed"
    sentence: str  # the verdict in words
    method: str  # how it was found

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, eq=False, repr=False)
class PriorAudit(Tabled):
    """Whether the data agree with the prior; see ``audit_prior``.

    Statements about single features come first, then relations, each kind with the
    strongest disagreement at the top.
    """

    relations: tuple[RelationAudit, ...]
    # Both at the model's lam; if that was tuned, each at the lam that is best for it.
    helped: PriorBenefit | None
    reason: str | None  # why ``helped`` is None
    lam: float
    theta: float
    epsilon: float
    dual_gap_with: float  # certificates of the model, and of the fit without prior
    dual_gap_without: float
    library: str | None = None  # of frames, as the data came

    @property
    def disagreeing(self) -> tuple[RelationAudit, ...]:
        """Relations that the data contradict."""
        return tuple(r for r in self.relations if r.verdict == "disagrees")

    def to_frame(self, library: object = None) -> object:
        """One row per relation, as a data frame.

        Parameters
        ----------
        library : str, optional
            "pandas", "polars" or "pyarrow". By default the library of the data, or the
            first of these that is installed.
        """
        names = [field.name for field in fields(RelationAudit)]
        columns = {name: [vars(r)[name] for r in self.relations] for name in names}
        chosen = library or self.library or find_frame_library(None)
        return build_frame(columns, chosen)

    def to_dict(self) -> Settings:
        """Plain values; None in place of numbers that are not finite."""
        return json.loads(self.to_json())

    def to_json(self) -> str:
        """All values as JSON text."""
        values = dict(vars(self))
        del values["library"]
        values["relations"] = [asdict(relation) for relation in self.relations]
        values["helped"] = None if self.helped is None else asdict(self.helped)
        return dump_json(values, ensure_ascii=False)

    def _tables(self) -> list[Table]:
        found = []
        header = ("relation", "verdict", "statistic", "p", "before", "after", "share")
        for kind, title in KINDS.items():
            rows = [_row(r) for r in self.relations if r.kind == kind]
            if rows:  # frames and JSON hold all
                table = build_table(title, header, rows, most=20, what="relations")
                found.append(replace(table, alignment="llrrrrr"))
        return found

    def _opening(self) -> list[str]:
        """Sentences: did the prior help, and which relations are contradicted."""
        lines = [str(self.helped) if self.helped else f"Not judged: {self.reason}"]
        for kind, title in KINDS.items():
            relations = [r for r in self.relations if r.kind == kind]
            if not relations:
                continue
            wrong = [r.relation for r in relations if r.verdict == "disagrees"]
            more = ", …" if len(wrong) > 5 else ""
            names = f" ({', '.join(wrong[:5])}{more})" if wrong else ""
            unknown = sum(r.verdict == "cannot be judged" for r in relations)
            rest = f"; {unknown} cannot be judged" if unknown else ""
            lines.append(
                f"{title}: the data contradict {len(wrong)} of {len(relations)}{names}"
                f"{rest}."
            )
        return lines

    def to_markdown(self) -> str:
        """The audit as a page of Markdown."""
        opening = [f"- {in_markdown(line)}" for line in self._opening()]
        return "\n".join(["# Prior audit", "", *opening, "", super().to_markdown()])


def _row(relation: RelationAudit) -> tuple[str, ...]:
    p = relation.p_value
    return (
        relation.relation,
        relation.verdict,
        "unknown" if isnan(relation.statistic) else f"{relation.statistic:.1f}",
        "unknown" if isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}",
        f"{relation.violation_before:.2f}",
        f"{relation.violation_after:.2f}",
        f"{100 * relation.share:.0f} %",
    )
