"""Entry point of ``python -m oahu``."""

from oahu.cli import app

app()
