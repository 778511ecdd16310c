"""Checks of the behaviour of any learner, built-in or third-party.

>>> import oahu
>>> from oahu.checks import check_learner
>>> check_learner(oahu.Euclidean())
"""

from oahu.checks.checks import Check, check_learner, yield_checks

__all__ = ["Check", "check_learner", "yield_checks"]
