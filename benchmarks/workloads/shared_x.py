"""Multi-task lasso with one X for all tasks, against the packages that solve it."""

from benchmarks.contest import Contest, compete
from benchmarks.data import describe, shared_instances
from benchmarks.report import Bar, Report
from benchmarks.standings import advantages, contest_sections, describe_ratios

TITLE = "Shared X, against peers"
PEERS = ("sklearn", "celer", "skglm", "adelie")
NOTE = (
    "Multi-task lasso without intercepts. Ours is timed from the arrays to certified "
    "coefficients, statistics included; peers get arrays in the layout that they like, "
    "compiled code, their best variant (one λ or a path of ten) and the coarsest "
    "tolerance that reaches the gap. One thread each."
)


def measure(quick: bool) -> Report:
    """All shapes, all peers."""
    instances = list(shared_instances(quick))
    names = [instance.name for instance in instances]
    contest = compete(instances, dict.fromkeys(PEERS, names), quick)
    shapes = {instance.name: describe(instance) for instance in instances}
    sections = contest_sections(contest, shapes)
    return Report(TITLE, NOTE, _bars(contest), sections, contest)


def _bars(contest: Contest) -> list[Bar]:
    goals = (1e-6, 1e-8)
    fastest = advantages(contest, goals, PEERS)
    celer = advantages(contest, goals, ("celer",))
    return [
        Bar(
            "never slower than the fastest peer on any shape, gaps 1e-6 and 1e-8",
            *describe_ratios(fastest, least=1.0),
        ),
        Bar(
            "≥ 2× the fastest peer in the geometric mean",
            *describe_ratios(fastest, mean=2.0),
        ),
        Bar("≥ 4× celer in the geometric mean", *describe_ratios(celer, mean=4.0)),
    ]
