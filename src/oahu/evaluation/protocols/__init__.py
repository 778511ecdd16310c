"""How methods are measured, exactly as Section 4 of the paper does it, and what it does not say made explicit."""

from typing import Final

from oahu.evaluation.protocols.classification import Classification, Constraints
from oahu.evaluation.protocols.methods import GRIDS, PAPER_METHODS, Method, as_method, as_methods
from oahu.evaluation.protocols.protocol import Protocol
from oahu.evaluation.protocols.retrieval import Retrieval
from oahu.evaluation.protocols.scaling import SCALINGS
from oahu.evaluation.protocols.sensitivity import Regret, Sensitivity
from oahu.evaluation.protocols.verification import Verification

__all__ = [
    "GRIDS",
    "PAPER_METHODS",
    "PROTOCOLS",
    "SCALINGS",
    "Classification",
    "Constraints",
    "Method",
    "Protocol",
    "Regret",
    "Retrieval",
    "Sensitivity",
    "Verification",
    "as_method",
    "as_methods",
]

_ALL = (Classification(), Constraints(), Verification(), Retrieval(), Sensitivity(), Regret())

#: By name.
PROTOCOLS: Final[dict[str, Protocol]] = {protocol.name: protocol for protocol in _ALL}
