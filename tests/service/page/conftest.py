"""A running service, a browser, and small collections of handwritten digits."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect, sync_playwright
from sklearn.datasets import load_digits

from oahu import Client, ServiceRequestError
from oahu.service.images import encode_png
from oahu.service.keys import KeyFile

TIMEOUT_MS = 300_000  # milliseconds after which a test fails instead of hanging
FAST_LEARNER = {
    "learner": "OAHU",
    "parameters": {"learning_rate": 0.3, "beta": 0.5},
}  # each click changes the weights visibly
N_ITEMS = 60
CONTEXT_OPTIONS = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
# One renderer process for all pages: it compiles the scripts of the page once.
BROWSER_FLAGS = ["--no-sandbox", "--renderer-process-limit=1", "--disable-site-isolation-trials"]

expect.set_options(timeout=TIMEOUT_MS)
_collection_numbers = itertools.count()


# -- services ------------------------------------------------------------------------------------------------


@contextmanager
def _running_server(data: Path, terminate: bool = False) -> Iterator[str]:
    """Run a service in its own process and yield its address. Terminate it at the end, or kill it."""
    script = Path(__file__).with_name("page_server.py")
    with subprocess.Popen([sys.executable, str(script), str(data)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address, "the service did not start"
            yield address
        finally:
            process.terminate() if terminate else process.kill()
    assert not terminate or process.returncode == 0


@pytest.fixture(scope="session")
def start_server() -> Any:
    """A context manager that runs a service with a data folder."""
    return _running_server


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service without API keys."""
    with _running_server(tmp_path_factory.mktemp("page")) as server_address:
        yield server_address


@dataclass
class ProtectedServer:
    """A service with API keys."""

    address: str
    keys: KeyFile
    admin: str
    read: str

    def add_key(self, role: Any) -> str:
        """Add a key and wait until the service accepts it."""
        token = self.keys.add(f"a {role}", role)
        with httpx.Client(
            base_url=self.address, verify=False, headers={"Authorization": f"Bearer {token}"}
        ) as http:
            while http.get("/v1/collections").status_code == 401:
                time.sleep(0.02)
        return token

    def remove_key(self, token: str) -> None:
        self.keys.revoke(token.split("_")[1])


@pytest.fixture(scope="session")
def protected_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProtectedServer]:
    """A service with API keys."""
    data = tmp_path_factory.mktemp("protected_server")
    keys = KeyFile(data)
    admin, read = keys.add("the admin", "admin"), keys.add("a reader", "read")
    with _running_server(data) as server_address:
        yield ProtectedServer(server_address, keys, admin, read)


# -- collections ---------------------------------------------------------------------------------------------


@dataclass
class DigitCollection:
    """A collection of handwritten digits: keys d-00 ... d-59."""

    client: Client
    keys: list[str]
    labels: list[str]

    @property
    def name(self) -> str:
        assert self.client.name is not None
        return self.client.name

    def similar_to(self, key: str) -> list[str]:
        """Return the other items with the same label."""
        label = self.labels[self.keys.index(key)]
        return [other for other, one in zip(self.keys, self.labels, strict=True) if one == label and other != key]

    def dissimilar_to(self, key: str) -> list[str]:
        """Return the items with another label."""
        return [other for other in self.keys if other != key and other not in self.similar_to(key)]


@cache
def _digit_images() -> tuple[Any, list[str], list[bytes]]:
    """Return features, labels and pictures of some digits."""
    images, labels = load_digits(return_X_y=True)
    rows = (images[:N_ITEMS] / 16).astype(np.float32)
    pictures = [encode_png(np.kron(255 - 255 * row.reshape(8, 8), np.ones((8, 8)))) for row in rows]
    return rows, [str(label) for label in labels[:N_ITEMS]], pictures


def _create_digits(client: Client, **config: Any) -> DigitCollection:
    rows, labels, pictures = _digit_images()
    digits = DigitCollection(client, [f"d-{at:02d}" for at in range(N_ITEMS)], labels)
    client.create(dimension=64, **{**FAST_LEARNER, "contradictions": "refuse", **config})
    client.put(digits.keys, rows, digits.labels, [{"number": at} for at in range(N_ITEMS)], pictures)
    return digits


@pytest.fixture
def digits(address: str) -> Iterator[DigitCollection]:
    """A collection with a learner that changes visibly with each click."""
    with Client(address, f"digits-{next(_collection_numbers)}") as client:
        yield _create_digits(client)
        with suppress(ServiceRequestError):  # the test may have deleted it
            client.delete()


@pytest.fixture(scope="session")
def shared_digits(address: str) -> Iterator[DigitCollection]:
    """The same collection for all tests that do not change it."""
    with Client(address, "shared-digits") as client:
        yield _create_digits(client)


@pytest.fixture
def anchored_digits(address: str) -> Iterator[DigitCollection]:
    """A collection with the default learner."""
    with Client(address, f"anchored-{next(_collection_numbers)}") as client:
        yield _create_digits(client, learner="AnchoredOAHU", parameters={})


@pytest.fixture
def protected_digits(protected_server: ProtectedServer) -> Iterator[DigitCollection]:
    """A collection of the service with API keys."""
    with Client(protected_server.address, f"digits-{next(_collection_numbers)}", protected_server.admin) as client:
        yield _create_digits(client)


@pytest.fixture
def create_empty(address: str) -> Iterator[Callable[..., Client]]:
    """A function that creates collections without items."""
    clients: list[Client] = []

    def make(dimension: int, **config: Any) -> Client:
        clients.append(Client(address, f"empty-{next(_collection_numbers)}"))
        return clients[-1].create(dimension, **config)

    yield make
    for client in clients:
        client.close()


# -- browsers ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def browser_profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the browser caches compiled scripts."""
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")  # a longer scope would block event loops in other tests
def browser_context(browser_profile: Path) -> Iterator[BrowserContext]:
    """The installed Chromium browser, with the context that the tests of a module share."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        missing = "the page tests need Chromium: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            browser_profile, executable_path=path, args=BROWSER_FLAGS, **CONTEXT_OPTIONS
        )
        yield context
        context.close()


@dataclass
class BrowserWindow:
    """A browser window with a page of the service."""

    page: Page
    address: str
    errors: list[str] = field(default_factory=list)  # JavaScript errors
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(TIMEOUT_MS)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("websocket", lambda socket: self.requests.append(socket.url))

    def go(self, path: str = "/") -> None:
        self.page.goto(self.address + path)

    def open(self, name: str, **query: str) -> None:
        """Open the page of a collection and wait until it is shown."""
        self.go(f"/collections/{name}?{urlencode(query)}")
        self.page.wait_for_function("window.did_handshake === true")
        expect(self.page.locator(".workspace")).to_be_visible()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition is true."""
        end = time.monotonic() + TIMEOUT_MS / 1_000
        while not condition():
            assert time.monotonic() < end, "the condition did not become true"
            self.page.wait_for_timeout(50)

    def results(self) -> list[str]:
        """Return the keys of the results, in order."""
        return self._keys(".tiles.results")

    def catalogue(self) -> list[str]:
        """Return the keys of the catalogue view, in order."""
        return self._keys(".tiles.catalogue")

    def _keys(self, selector: str) -> list[str]:
        expect(self.page.locator(f"{selector} .tile").first).to_be_visible()
        found: list[str] = self.page.eval_on_selector_all(
            f"{selector} > .tile:not(.tile-leave-active)", "all => all.map(one => one.dataset.key)"
        )
        return found

    def tile(self, key: str) -> Locator:
        """Return the visible tile of a key."""
        return self.page.locator(f".tile[data-key={json.dumps(key, ensure_ascii=False)}]:visible")

    def mark(self, key: str, kind: str) -> None:
        """Mark a result as similar or dissimilar and wait until it is marked."""
        button = self.tile(key).locator(f".mark.{kind}")
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")

    def number(self, name: str) -> Locator:
        """Return an element that shows a number of the metric."""
        return self.page.locator(f".metric [data-number={name}]")

    def weights(self) -> list[str]:
        """Return the weights that the chart shows."""
        return self.page.locator(".bars .weight").all_text_contents()

    def log_row(self, seq: int) -> Locator:
        """Return a row of the feedback log."""
        return self.page.locator(f".log li[data-seq='{seq}']")

    def log_in(self, token: str) -> None:
        self.page.fill("#key", token)
        self.page.click("button[type=submit]")


@pytest.fixture
def window(browser_context: BrowserContext, address: str) -> Iterator[BrowserWindow]:
    """A window with the service without API keys."""
    page = browser_context.new_page()
    yield BrowserWindow(page, address)
    page.close()


@pytest.fixture
def open_window(browser_context: BrowserContext) -> Iterator[Callable[..., BrowserWindow]]:
    """A function that opens windows, each with its own browser context."""
    browser = browser_context.browser
    assert browser is not None
    opened = []

    def open_(address: str, **options: Any) -> BrowserWindow:
        context = browser.new_context(**{**CONTEXT_OPTIONS, **options})
        opened.append(context)
        return BrowserWindow(context.new_page(), address)

    yield open_
    for context in opened:
        context.close()
