"""Results for people: patch, terminal, HTML."""
