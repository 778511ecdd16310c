"""What comes out: frozen, versioned metrics, and the files they live in."""

from oahu.metrics.ensemble import EnsembleMetric, Expert
from oahu.metrics.files import load

__all__ = ["EnsembleMetric", "Expert", "load"]
