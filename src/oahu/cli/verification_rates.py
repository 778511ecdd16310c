"""Rates of a ROC curve that `oahu compare` and `oahu evaluate` print."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import oahu

__all__ = ["roc_rates"]

_FAR = (1e-2, 1e-3)


def roc_rates(roc: oahu.Roc | None) -> dict[str, float | None]:
    """Return the AUC, the equal error rate, and true accept rates at small false accept rates.

    If ``roc`` is None, all rates are None. If there are too few dissimilar pairs to measure a false accept rate,
    the true accept rate at this false accept rate is None.
    """
    if roc is None:
        return {"auc": None, "eer": None, **{f"tar@far={far:g}": None for far in _FAR}}
    tars = {f"tar@far={far:g}": roc.tar_at_far(far) if roc.n_dissimilar * far >= 1 else None for far in _FAR}
    return {"auc": roc.auc, "eer": roc.eer, **tars}
