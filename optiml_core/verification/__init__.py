"""Is the candidate the same function as the original? Error budget, guards, checks, verdict."""
