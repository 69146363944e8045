"""Other solvers, each run in an environment of its own."""
