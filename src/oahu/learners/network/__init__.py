"""The network layers of OAHU."""
