"""Evaluation protocols: the experiments of Section 4 of the paper, and learning from clicks."""

from typing import Final

from oahu.evaluation.protocols.base_protocol import EvaluationProtocol
from oahu.evaluation.protocols.classification_protocol import ClassificationProtocol, ConstraintCountProtocol
from oahu.evaluation.protocols.click_protocol import ClickProtocol
from oahu.evaluation.protocols.methods import DEFAULT_METHODS, GRIDS, Method, as_method, as_methods
from oahu.evaluation.protocols.retrieval_protocol import RetrievalProtocol
from oahu.evaluation.protocols.scaling import SCALINGS
from oahu.evaluation.protocols.sensitivity_protocol import RegretProtocol, SensitivityProtocol
from oahu.evaluation.protocols.verification_protocol import VerificationProtocol

__all__ = [
    "DEFAULT_METHODS",
    "GRIDS",
    "PROTOCOLS",
    "SCALINGS",
    "ClassificationProtocol",
    "ClickProtocol",
    "ConstraintCountProtocol",
    "EvaluationProtocol",
    "Method",
    "RegretProtocol",
    "RetrievalProtocol",
    "SensitivityProtocol",
    "VerificationProtocol",
    "as_method",
    "as_methods",
]

_PROTOCOLS: Final = (
    ClassificationProtocol(),
    ConstraintCountProtocol(),
    VerificationProtocol(),
    RetrievalProtocol(),
    SensitivityProtocol(),
    RegretProtocol(),
    ClickProtocol(),
)

#: All protocols by name.
PROTOCOLS: Final[dict[str, EvaluationProtocol]] = {protocol.name: protocol for protocol in _PROTOCOLS}
