"""Monte Carlo tree search over steps."""
