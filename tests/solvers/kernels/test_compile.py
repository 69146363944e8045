"""compiled: also where no cache can be written."""

from types import SimpleNamespace

import numba

from priormtl.solvers import kernels as compiling


def test_compiles_without_a_place_for_the_cache(monkeypatch):
    seen = []

    def refuse_cache(**options):
        seen.append(options.get("cache", False))
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return numba.njit(**options)

    # Only for the module under test: Numba itself decorates when it is first used.
    config = SimpleNamespace(DISABLE_JIT=False)
    fake = SimpleNamespace(njit=refuse_cache, config=config)
    monkeypatch.setattr(compiling, "numba", fake)
    assert compiling.compiled(lambda x: x + 1)(2) == 3
    assert seen == [True, False]
