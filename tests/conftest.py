"""What every test shares."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from hypothesis import settings

ROOT = Path(__file__).parents[1]


def _fresh_kernels() -> None:
    """Key the cache of compiled kernels by all of their sources: numba itself looks only at the caller's file."""
    sources = sorted((ROOT / "src/oahu/learners").rglob("*.py"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba_cache" / digest))


_fresh_kernels()

# Compiling and a busy machine make first examples slow. On CI the examples are the same every time.
settings.register_profile("oahu", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "oahu")
