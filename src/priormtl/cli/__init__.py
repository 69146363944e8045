"""How from a shell: the command line."""
