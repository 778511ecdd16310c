"""The code and the curl commands of the service guide run from top to bottom."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.server

GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "service.md"
BLOCK = re.compile(r"```(bash|python)\n(.*?)```", flags=re.DOTALL)
SKIPPED = ("pip install", "oahu serve")  # the fixture does this


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Start the service in an empty folder and return its port."""
    command = [sys.executable, "-m", "oahu", "serve", "--no-page", "--port", "0"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        found = None
        for line in process.stderr:
            if found := re.search(r"oahu listens at http://127\.0\.0\.1:(\d+)", line):
                break
        assert found is not None
        yield int(found[1])
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=600)


def test_the_guide_runs_from_top_to_bottom(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("curl") is None:
        if "CI" in os.environ:
            pytest.fail("curl is missing")
        pytest.skip("the guide's curl lines need curl: apt-get install curl")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    names: dict[str, Any] = {}
    outputs = []
    blocks = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    for language, block in blocks:
        text = block.replace("127.0.0.1:8000", f"127.0.0.1:{port}")
        if language == "python":
            exec(compile(text, "service.md", "exec"), names)
        elif not text.startswith(SKIPPED):
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert "urn:oahu:problem" not in done.stdout, done.stdout
            outputs.append(done.stdout)
    names["digits"].close()
    assert len(blocks) == 16
    first, again = (
        re.findall(r'"key":"(\w+)"', part)[:3] for part in outputs[1].split('{"metric_version"')[1:][:2]
    )
    assert first != again  # the click changed the next ranking
    assert again[0] == "gyokuro"
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].startswith("409 ")
    assert "session-1" in printed[2]
    assert printed[4].startswith("measured 0 {")
    assert printed[5].split()[1] == "7"
