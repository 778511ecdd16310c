"""The README's example does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import oahu

README = Path(__file__).parents[1] / "README.md"


def test_readme_example_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(example, "README.md", "exec"), names)
    learner, triplets = names["learner"], names["triplets"]
    assert isinstance(learner, oahu.OAHU)
    learner.partial_fit(triplets[4_001:])  # it does go on
    distance, accuracy = map(float, capsys.readouterr().out.split())
    assert 0 < distance < 2
    assert accuracy > 0.9
    assert oahu.load("digits.oahu").n_seen_ == 4_001


def test_readme_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert local
    assert [link for link in local if not (README.parent / link).exists()] == []
