"""How a user calls it."""
