"""What it can be tried on."""
