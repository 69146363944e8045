import pytest

from priormtl.experiments.description import describe_protocol
from priormtl.experiments.protocol import PROTOCOLS, find_protocol


@pytest.mark.parametrize("quick", [False, True])
def test_the_numbers_are_those_of_the_protocols(quick):
    text = describe_protocol(quick=quick)
    for name in PROTOCOLS:
        protocol = find_protocol(name, quick=quick)
        assert f"{protocol.budget.settings} ({name})" in text
        assert f"gap at most {protocol.tol:g} " in text
    assert ("quick run" in text) == quick
