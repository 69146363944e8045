"""Every task with its own X, with and without priors, against peers."""

from benchmarks.contest import OURS, Contest, compete
from benchmarks.data import describe, own_instances
from benchmarks.report import Bar, Report, times
from benchmarks.standings import advantages, contest_sections, describe_ratios

TITLE = "Different X for each task, against peers"
NOTE = (
    "No intercepts. adelie and skglm solve a group lasso on a sparse block design made "
    "for them beforehand, priors as extra rows; mutar needs tasks of equal length and "
    "no priors; fista_gram is FISTA with restart on Gram matrices in plain NumPy, Gram "
    "matrices included. Ours is timed from the arrays to certified coefficients. Of "
    "cvxpy only the time inside the cone solver counts. Tolerances go down to 1e-22: "
    "adelie's is on squared changes, and below 1e-16 it does reach a gap of 1e-8."
)


def measure(quick: bool) -> Report:
    """All shapes; peers get what they can solve."""
    instances = list(own_instances(quick))
    names = [instance.name for instance in instances]
    plain = [instance.name for instance in instances if not instance.has_priors]
    # Gram matrices of 5000 features would not fit for twenty tasks, and skglm takes
    # minutes for the 97 000 rows that priors add there.
    small = [instance.name for instance in instances if instance.shape[0] < 1000]
    skglm = [*small, *(name for name in plain if name not in small)]
    peers = {"adelie": names, "fista_gram": small, "mutar": plain, "skglm": skglm}
    if not quick:
        peers["cvxpy"] = ["B"]
    contest = compete(instances, peers, quick)
    shapes = {instance.name: describe(instance) for instance in instances}
    sections = contest_sections(contest, shapes)
    return Report(TITLE, NOTE, _bars(contest), sections, contest)


def _bars(contest: Contest) -> list[Bar]:
    adelie = advantages(contest, (1e-6, 1e-8), ("adelie",))
    return [
        Bar(
            "never slower than adelie with a sparse block design, wherever it gets to",
            *describe_ratios(adelie, least=1.0),
        ),
        Bar("≥ 3× adelie in the geometric mean", *describe_ratios(adelie, mean=3.0)),
        _school_bar(contest),
    ]


def _school_bar(contest: Contest) -> Bar:
    goal = (
        "SCH (139 tasks of School's sizes, 28 features) to 1e-8 in at most half the "
        "time of plain FISTA on Gram matrices"
    )
    results = contest["SCH"]
    if "fista_gram" not in results:
        return Bar(goal, "not run", None)
    ratio = results["fista_gram"].seconds[1e-8] / results[OURS].seconds[1e-8]
    return Bar(goal, f"FISTA takes {times(ratio)}× our time", ratio >= 2)
