"""AnchoredOAHU: OAHU's experts combined with the unlearned metric."""

from oahu.learners.anchored.anchored_learner import AnchoredOAHU

__all__ = ["AnchoredOAHU"]
