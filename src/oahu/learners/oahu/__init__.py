"""The OAHU learner: its loss, hedge update, compiled update step and estimator."""

from oahu.learners.oahu.oahu_learner import OAHU

__all__ = ["OAHU"]
