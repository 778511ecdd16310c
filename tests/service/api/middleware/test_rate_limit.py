"""The request rate of each caller is limited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oahu.service.api.middleware.rate_limit import RateLimitedError, TokenBuckets
from oahu.service.keys import KeyFile

C = "/v1/collections"


def test_too_many_requests_are_rejected_with_retry_after(start_server: Any) -> None:
    server = start_server(rate=0.001, burst=3)
    assert [server.send().status_code for _ in range(4)] == [200, 200, 200, 429]
    rejected = server.send()
    assert rejected.json()["type"] == "urn:oahu:problem:rate-limited"
    assert 1 <= int(rejected.headers["retry-after"]) <= 1000


def test_every_key_has_its_own_rate(start_server: Any, tmp_path: Path) -> None:
    one, two = (KeyFile(tmp_path / "data").add(name, "read") for name in ("one", "two"))
    server = start_server(rate=0.001, burst=1)
    codes = [server.send(Authorization=f"Bearer {key}").status_code for key in (one, one, two)]
    assert codes == [200, 429, 200]


def test_invalid_keys_share_the_rate_of_their_address(start_server: Any, tmp_path: Path) -> None:
    KeyFile(tmp_path / "data").add("one", "read")
    server = start_server(rate=0.001, burst=2)
    codes = [server.send(Authorization=f"Bearer oahu_{at}_x").status_code for at in range(3)]
    assert codes == [401, 401, 429]


@given(st.lists(st.floats(0, 5), min_size=1, max_size=60), st.floats(0.1, 10), st.integers(1, 10))
def test_token_buckets_never_exceed_burst_and_rate(gaps: list[float], rate: float, burst: int) -> None:
    """In any interval at most burst + rate * time requests pass. A caller that waits as requested passes."""
    buckets, now, taken = TokenBuckets(rate, burst), 100.0, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("oahu.service.api.middleware.rate_limit.time.monotonic", lambda: now)
        for gap in gaps:
            now += gap
            if wait := wait_time(buckets):
                now += wait + 1e-9
                assert wait_time(buckets) == 0
            taken.append(now)
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            assert last - first + 1 <= burst + rate * (taken[last] - taken[first]) + 1e-6


def wait_time(buckets: TokenBuckets) -> float:
    """Take a token, or return the seconds to wait."""
    try:
        buckets.take("me")
    except RateLimitedError as error:
        return error.retry_after or 0.0
    return 0.0


def test_the_number_of_remembered_callers_is_limited() -> None:
    buckets = TokenBuckets(1.0, 1)
    for caller in range(20_000):
        buckets.take(str(caller))
    assert len(buckets._buckets) == 10_000
