"""Joining of similar and dissimilar pairs into triplets."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

__all__ = ["PairJoiner", "order_triplet"]


class PairJoiner:
    """Joins each pair with an earlier pair that has the other label and shares an item.

    If there are several such earlier pairs, the latest one is used. The shared item becomes the anchor of a
    triplet. Each pair is joined at most once. If a triplet was split into its two pairs, joining these two pairs
    restores the triplet. The result depends only on the pairs and their order.

    Attributes
    ----------
    n_pairs : int
        The number of pairs added.
    n_joined : int
        The number of triplets formed.

    Examples
    --------
    >>> joiner = PairJoiner()
    >>> joiner.join("tea", "green tea", True), joiner.join("coffee", "tea", False)
    (None, 0)
    """

    def __init__(self) -> None:
        self.n_pairs = self.n_joined = 0
        # {(item, label): {the other item: numbers of its pairs}}; the other item that was added last comes last.
        self._waiting: dict[tuple[Hashable, bool], dict[Hashable, list[int]]] = {}
        self._joined: set[int] = set()

    def join(self, first: Hashable, second: Hashable, same: bool) -> int | None:
        """Add a pair. Return the position of the earlier pair that the new pair is joined with, or None.

        Positions are counted from 0, in the order of the calls.
        """
        number = self.n_pairs
        self.n_pairs += 1
        ends = ((first, second), (second, first))
        found = max(self._latest((item, not same), other) for item, other in ends)
        if found >= 0:
            self._joined.add(found)
            self.n_joined += 1
            return found
        for item, other in set(ends):
            others = self._waiting.setdefault((item, same), {})
            numbers = others.pop(other, [])
            numbers.append(number)
            others[other] = numbers  # moves the entry to the end
        return None

    def _latest(self, key: tuple[Hashable, bool], excluded: Hashable) -> int:
        """Return the position of the latest pair with this ``key`` that was not joined yet, or -1 if there is none.

        ``key`` is one item of the pair and the label of the pair. Pairs with ``excluded`` as the other item are
        skipped. They have the same two items as the new pair, but the other label. Such pairs contradict each other
        and form no triplet.
        """
        others = self._waiting.get(key)
        skipped = None
        found = -1
        while others and found < 0:
            other, numbers = others.popitem()
            while numbers and numbers[-1] in self._joined:
                numbers.pop()
            if numbers and other == excluded:
                skipped = numbers
            elif numbers:
                others[other] = numbers
                found = numbers[-1]
        if others is not None and skipped is not None:
            others[excluded] = skipped
        return found


def order_triplet(similar: Sequence[Hashable], dissimilar: Sequence[Hashable]) -> tuple[int, int, int]:
    """Return the positions of the anchor, the positive and the negative of the triplet that two pairs form.

    The positions refer to the four items ``(*similar, *dissimilar)``.

    >>> order_triplet(("tea", "green tea"), ("coffee", "tea"))
    (0, 1, 2)
    """
    for anchor, positive in ((0, 1), (1, 0)):
        for shared, negative in ((0, 1), (1, 0)):
            if similar[anchor] == dissimilar[shared]:
                return anchor, positive, 2 + negative
    raise AssertionError("joined pairs share an item")
