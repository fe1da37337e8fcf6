"""One file per check. A check is a function from what was read or run to the problem it found, or None."""
