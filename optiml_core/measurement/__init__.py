"""Paired timing with statistics, and predicted times."""
