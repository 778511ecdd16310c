"""What every test shares."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _fresh_kernels() -> None:
    """Key the cache of compiled kernels by all of their sources: numba itself looks only at the caller's file."""
    sources = sorted((ROOT / "src/oahu/learners").rglob("*.py"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba_cache" / digest))


_fresh_kernels()
