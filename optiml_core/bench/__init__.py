"""The suites behind `optiml bench`."""
