"""Pictures: what is drawn is what was given."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from oahu import plots


def test_weights_are_stacked_to_one(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(4), size=30)
    drawn, (ax,) = plots.figure(1)
    plots.weights_over_time(ax, np.arange(1, 31), weights)
    tops = [band.get_paths()[0].vertices[:, 1].max() for band in ax.collections]
    np.testing.assert_allclose(tops, np.cumsum(weights, axis=1).max(axis=0))
    assert [text.get_text() for text in ax.texts] == [f"$E_{{{level}}}$" for level in range(4)]
    drawn.savefig(tmp_path / "weights.png")


def test_accuracy_is_a_line_with_the_unlearned_metric_beside_it(tmp_path: Path) -> None:
    drawn, (left, right) = plots.figure(2, "Two")
    plots.accuracy_over_time(left, [0, 1, 2], [0.5, 0.7, 0.9], unlearned=0.6)
    plots.accuracy_over_time(right, [0, 1, 2], [0.5, 0.7, 0.9])
    np.testing.assert_array_equal(left.lines[0].get_ydata(), [0.5, 0.7, 0.9])
    assert set(left.lines[1].get_ydata()) == {0.6}
    assert len(right.lines) == 1
    drawn.savefig(tmp_path / "accuracy.png")
