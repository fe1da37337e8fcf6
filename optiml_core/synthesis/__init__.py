"""OptiML-G: from a comment to a specification to a kernel."""
