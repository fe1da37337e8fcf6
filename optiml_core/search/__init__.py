"""Monte Carlo tree search over steps: ``run.optimize`` is its entry, ``records`` what comes out."""
