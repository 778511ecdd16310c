"""The network layers that OAHU and AnchoredOAHU share."""
