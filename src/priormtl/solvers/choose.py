"""Methods by name, and the only place where "auto" is decided."""

from collections.abc import Callable

from priormtl._machine import free_bytes
from priormtl.exceptions import unknown_name
from priormtl.penalties import Columns, Dirty, Nuclear, Robust, RowSeparable
from priormtl.problem import Problem
from priormtl.solvers.block_newton import BlockNewton
from priormtl.solvers.blocks import BlockQuadratic
from priormtl.solvers.first_order import Fista, Gd, Ista, IstaReverse, Linear
from priormtl.solvers.loop import Method
from priormtl.solvers.newton import Newton, ProximalNewton
from priormtl.solvers.nuclear import NuclearNewton, NuclearSplitting
from priormtl.solvers.splitting import Splitting
from priormtl.solvers.working_set import WorkingSet

SMALL_GRAM_NUMBERS = 2**22  # 32 MB: always there is memory for these
FEW_GRAM_NUMBERS = 2**20  # 8 MB: always worth it

METHODS: dict[str, Callable[[], Method]] = {
    "gd": Gd,
    "ista": Ista,
    "ista-reverse": IstaReverse,
    "fista": Fista,
    "linear": Linear,
}


def default_method(problem: Problem) -> Method:
    """Newton's method in the form that fits the problem, else FISTA with restart.

    No penalty: plain Newton. Penalty of rows: block Newton on Gram matrices or samples,
    for many features, or statistics too large to hold, inside a working set. Nuclear
    norm: Newton along matrices of one rank, on Gram matrices, after ADMM where these
    are small. Norms of dirty, robust or separate tasks: splitting.
    Losses that are not squared: these inside proximal Newton. Gram matrices too large
    to hold, and nuclear norms of very many features: FISTA, where the gradient has a
    Lipschitz constant.
    """
    held = problem.constraints is not None and problem.constraints.signs.any()
    if problem.lam == 0 and not held:
        return Newton()
    by_rows = isinstance(problem.penalty, RowSeparable)
    on_device = problem.fit.is_on_device and problem.constraints is None
    if on_device and BlockQuadratic.fits(problem):
        # PyTorch takes long to load: only those who need it should wait.
        from priormtl.solvers.device import DeviceNewton  # noqa: PLC0415

        return DeviceNewton()
    size, rows = problem.fit.normal_size, problem.fit.rows_per_task
    # Gram matrices are all there is, and only parts of them can be held.
    too_large = size is not None and rows is None and not _is_room_for(problem, size)
    if by_rows and too_large:
        return WorkingSet(_method_for_all_rows, whole=1.0)
    # Up to here a working set gains nothing.
    if by_rows and problem.fit.shape[0] > 256:
        return WorkingSet(_method_for_all_rows)
    return _method_for_all_rows(problem)


def _method_for_all_rows(problem: Problem) -> Method:
    if not problem.fit.has_lipschitz_gradient:
        return ProximalNewton(default_method)
    if isinstance(problem.penalty, Nuclear):
        return _method_for_nuclear_norm(problem)
    if isinstance(problem.penalty, Dirty | Robust | Columns):
        return _method_for_parts(problem)
    if not problem.fit.is_quadratic:
        return ProximalNewton(default_method)
    pays = BlockQuadratic.keeps_samples(problem) or _gram_pays(problem)
    if BlockQuadratic.fits(problem) and pays:
        return BlockNewton()
    return Fista(restart=True)


def _method_for_nuclear_norm(problem: Problem) -> Method:
    # Features whose modes cost less than the steps they save.
    few = problem.shape[0] <= 256
    if not (few and NuclearNewton.fits(problem) and _gram_pays(problem)):
        return Fista(restart=True)
    if not problem.fit.is_quadratic:
        return ProximalNewton(default_method)
    d, m = problem.shape
    # Axes of so few features are found in less time than Newton steps take.
    small = d <= 64 and m * d * d <= FEW_GRAM_NUMBERS
    if small and NuclearSplitting.fits(problem):
        return NuclearSplitting()
    return NuclearNewton()


def _method_for_parts(problem: Problem) -> Method:
    d, m = problem.shape
    most_mode_numbers = 2**22  # 32 MB: beyond, modes cost more than the steps they save
    if not problem.fit.is_quadratic:
        few = m * d * min(d, problem.fit.size // d) <= most_mode_numbers
        return ProximalNewton(default_method) if few else Fista(restart=True)
    size = problem.fit.shifted_size
    few = size is not None and size <= most_mode_numbers
    return Splitting() if few and Splitting.fits(problem) else Fista(restart=True)


def _gram_pays(problem: Problem) -> bool:
    """Whether Gram matrices are not much larger than what they are made of."""
    d, m = problem.fit.shape
    # Models of other losses weigh every task's samples in their own way.
    size = problem.fit.normal_size or m * d * d
    share = max(FEW_GRAM_NUMBERS, problem.fit.size)
    return size <= share and _is_room_for(problem, size)


def _is_room_for(problem: Problem, size: int) -> bool:
    """Whether Gram matrices of so many numbers can be laid out in memory.

    Statistics on disk have a limit of their own, above which they stay there.
    """
    most = problem.fit.most_held
    if most is not None and size > most:
        return False
    # 12 bytes per number: a layout of their own, and what works on it.
    return size <= SMALL_GRAM_NUMBERS or 12 * size <= free_bytes()


def method_by_name(name: str, problem: Problem) -> Method:
    """Method called ``name``; "auto" picks one for the problem."""
    if name == "auto":
        return default_method(problem)
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    if not problem.fit.has_lipschitz_gradient:
        raise ValueError(
            f'solver must be "auto" with this loss: got {name!r}, which needs a '
            "Lipschitz constant of its gradient."
        )
    return METHODS[name]()
