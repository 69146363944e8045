"""How commands say no: one sentence on stderr, exit code 2."""


def assert_refused(result, *words):
    """Whether a command failed for a reason that it told, with these words in it."""
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr
