"""AnchoredOAHU: OAHU's experts, held to the metric they started from."""

from oahu.learners.anchored.learner import AnchoredOAHU

__all__ = ["AnchoredOAHU"]
