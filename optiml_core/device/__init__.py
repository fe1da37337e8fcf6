"""Runs a variant on a workload behind one protocol."""
