"""``python -m oahu`` is ``oahu``."""

from oahu.cli import app

app()
