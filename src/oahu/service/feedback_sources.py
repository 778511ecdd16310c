"""The sources of feedback: how much each source has given, and how much of it contradicts other sources."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from typing import NamedTuple

from oahu.service.feedback_log import source_factors
from oahu.service.store import StoreReader

__all__ = ["SourceSummary", "list_sources"]


class SourceSummary(NamedTuple):
    """The feedback of one source.

    Attributes
    ----------
    stored : int
        The number of its feedback records in the log, including undone records.
    refused : int
        The number of its feedback records that were refused, because they contradict earlier feedback.
    contradicted : float
        The number of its records in the log that contradict records of another source, or are contradicted by them.
        If a record contradicts a chain of n earlier records, one of them is wrong. Therefore, this record and the
        records of the chain count as 1 / n each. A record with several contradictions counts as the largest of
        these numbers. Undone records do not count.
    weight : float
        The factor for the weights of its earlier records. 0 means that these records are undone.
    """

    source: str
    stored: int
    refused: int
    contradicted: float
    weight: float

    @property
    def share_contradicted(self) -> float:
        """The share of contradicted and refused records in all records that the source sent."""
        return (self.contradicted + self.refused) / (self.stored + self.refused)


def list_sources(reader: StoreReader, collection: int, after: str, limit: int) -> list[SourceSummary]:
    """Return at most ``limit`` sources after the source ``after``, in alphabetical order."""
    factors = source_factors(reader, collection)
    contradicted = _contradicted(reader, collection)
    return [
        SourceSummary(
            *count,
            contradicted=contradicted.get(count.source, 0.0),
            weight=factors[count.source].weight if count.source in factors else 1.0,
        )
        for count in reader.source_counts(collection, after, limit)
    ]


def _contradicted(reader: StoreReader, collection: int) -> dict[str, float]:
    """Return the number of contradicted records of each source. See `SourceSummary.contradicted`.

    Undone records have no contradictions in the store.
    """
    contradictions: defaultdict[int, list[int]] = defaultdict(list)
    for seq, other in reader.contradictions(collection):
        contradictions[seq].append(other)
    sources = reader.source_of(collection, sorted({*contradictions, *chain(*contradictions.values())}))
    shares: dict[int, float] = {}
    for seq, others in contradictions.items():
        if len({sources[one] for one in (seq, *others)}) > 1:
            for one in (seq, *others):
                shares[one] = max(shares.get(one, 0.0), 1 / len(others))
    contradicted: defaultdict[str, float] = defaultdict(float)
    for seq, share in shares.items():
        if (source := sources[seq]) is not None:
            contradicted[source] += share
    return contradicted
