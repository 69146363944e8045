import pytest
from typer import Exit

from priormtl.cli.errors import one_sentence


@pytest.mark.parametrize("error", [ValueError("no such name"), OSError("no disk")])
def test_mistakes_end_with_one_line_and_two(capsys, error):
    with pytest.raises(Exit) as ended, one_sentence():
        raise error
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err == f"Error: {error}\n"


def test_our_own_mistakes_are_not_hidden():
    with pytest.raises(TypeError), one_sentence():
        raise TypeError("a bug")
