"""What comes out: frozen, versioned metrics, and the files they live in."""

from oahu.metrics.ensemble import EnsembleMetric, Expert

__all__ = ["EnsembleMetric", "Expert"]
