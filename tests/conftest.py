"""What every test shares."""

from __future__ import annotations

import os

from hypothesis import settings

# Compiling and a busy machine make first examples slow. On CI the examples are the same every time.
settings.register_profile("oahu", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "oahu")
