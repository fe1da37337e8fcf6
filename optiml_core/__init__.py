"""The OptiML engine: text in, values out. It knows no editor and no language server."""

__version__ = "0.1.0"
