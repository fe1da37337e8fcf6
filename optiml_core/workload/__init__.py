"""The workload language, inference from host code, contents of arguments, size variation."""
