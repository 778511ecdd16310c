"""Behaviour checks for any learner, ours or a third party's."""
