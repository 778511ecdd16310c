"""Nearest-neighbour search over vectors, exact and approximate."""
