"""OAHU: the loss, the hedge, the network, the fused step, and the learner made of them."""

from oahu.learners.oahu.learner import OAHU

__all__ = ["OAHU"]
