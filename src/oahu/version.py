"""The version of oahu."""

__version__ = "0.1.0"
