"""Descriptions of contradictions between feedback records, for error messages and responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from oahu.constraints.contradictions import Contradiction
from oahu.service.errors import ContradictoryFeedbackError

__all__ = ["ContradictionReport"]

_MAX_LINKS: Final = 10  # links of a proof in an error message

HINT: Final = (
    "The setting 'contradictions' of the collection is {policy!r}. Undo the earlier feedback, remove this record "
    "from the request, or change the setting to 'newest', so that new feedback replaces earlier feedback."
)


class ContradictionReport(NamedTuple):
    """Why a feedback record is refused.

    Attributes
    ----------
    record : int
        The index of the record in the request.
    pair : dict
        The pair of the record that causes the contradiction, as JSON data.
    proof : list of dict
        The chain of pairs that implies the opposite, as JSON data.
    reason : str
        The contradiction in one sentence.
    """

    record: int
    pair: dict[str, Any]
    proof: list[dict[str, Any]]
    reason: str

    @classmethod
    def of(
        cls,
        found: Contradiction,
        record: int,
        name_of: Callable[[int], str],
        origin_of: Callable[[int], dict[str, int]],
    ) -> ContradictionReport:
        """Return the report of a contradiction.

        Parameters
        ----------
        name_of : callable
            Returns the name of the item with an item number.
        origin_of : callable
            Returns the origin of the constraint with a number: ``{"seq": ...}`` for an earlier record, and
            ``{"record": ...}`` for a record of the request.
        """
        proof, sentences = [], []
        for number, first, second, same in found.chain:
            pair = {"first": name_of(first), "second": name_of(second), "same": same}
            origin = origin_of(number)
            proof.append(origin | pair)
            giver = f"feedback {origin['seq']}" if "seq" in origin else "this request"
            sentences.append(f"{giver} states {_sentence(pair)}")
        first, second, same = found.pair
        pair = {"first": name_of(first), "second": name_of(second), "same": same}
        chain = "; ".join([*sentences[:_MAX_LINKS], "..."][: len(sentences)]) or "an item is similar to itself"
        reason = f"Feedback record {record} of the request states {_sentence(pair)}, but {chain}."
        return cls(record, pair, proof, reason)

    def error(self, policy: str, **more: Any) -> ContradictoryFeedbackError:
        """Return the error for a request of which nothing was accepted."""
        return ContradictoryFeedbackError(
            f"{self.reason} Nothing was accepted. {HINT.format(policy=policy)}",
            self.proof,
            record=self.record,
            pair=self.pair,
            setting="contradictions",
            policy=policy,
            **more,
        )

    def error_of_itself(self) -> ContradictoryFeedbackError:
        """Return the error for a record that contradicts itself. No policy accepts such a record."""
        return ContradictoryFeedbackError(
            f"{self.reason} The record contradicts itself. Nothing was accepted. Correct or remove this record.",
            self.proof,
            record=self.record,
            pair=self.pair,
        )


def _sentence(pair: dict[str, Any]) -> str:
    relation = "similar" if pair["same"] else "dissimilar"
    return f"that {pair['first']!r} and {pair['second']!r} are {relation}"
