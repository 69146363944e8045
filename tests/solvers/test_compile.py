"""compiled: also where no cache can be written."""

import numba

from priormtl.solvers.compile import compiled


def test_compiles_without_a_place_for_the_cache(monkeypatch):
    original, seen = numba.njit, []

    def refuse_cache(**options):
        seen.append(options.get("cache", False))
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return original(**options)

    monkeypatch.setattr(numba, "njit", refuse_cache)
    assert compiled(lambda x: x + 1)(2) == 3
    assert seen == [True, False]
