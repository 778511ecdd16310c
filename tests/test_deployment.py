"""The files of the deployment guide fit the service: metric names, settings, paths and commands."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
import uvicorn
from typer.testing import CliRunner

from oahu.cli import app
from oahu.service.api.app import create_app
from oahu.service.keys import KeyFile
from oahu.service.settings import Settings

DOCS = Path(__file__).parents[1] / "docs"
FILES = DOCS / "deployment"
HOST = "search.example.org"


@contextmanager
def serving(settings: Settings) -> Iterator[httpx.Client]:
    """Run the service, and give a client of it."""
    server = uvicorn.Server(uvicorn.Config(create_app(settings), log_config=None, access_log=False))
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        thread = Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with httpx.Client(base_url=url, timeout=600, trust_env=False) as client:
            yield client
        server.should_exit = True
        thread.join()


def unit(name: str) -> configparser.ConfigParser:
    """Return a systemd unit. Options that occur several times are joined by line breaks."""

    class Joined(dict[str, Any]):
        def __setitem__(self, key: str, value: Any) -> None:
            if isinstance(value, list) and isinstance(self.get(key), list):
                value = [*self[key], *value]
            super().__setitem__(key, value)

    parser = configparser.ConfigParser(strict=False, interpolation=None, dict_type=Joined)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string((FILES / name).read_text())
    return parser


def service_environment() -> dict[str, str]:
    lines = unit("oahu.service")["Service"]["Environment"].splitlines()
    return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def exported(tmp_path: Path) -> set[str]:
    """The names of all metrics of a service with a collection that has answered requests."""
    with serving(Settings(data=tmp_path, page=False)) as client:
        client.post("/v1/collections", json={"name": "teas", "dimension": 2, "learner": "Euclidean"})
        client.post("/v1/collections/teas/search", json={"vector": [1, 2]})
        text = client.get("/metrics").text
    return set(re.findall(r"^(oahu_\w+)", text, flags=re.MULTILINE))


def test_every_metric_of_the_dashboard_is_exported(exported: set[str]) -> None:
    dashboard = json.loads((FILES / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [one["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    for query in queries:
        names = re.findall(r"oahu_\w+", query)
        assert names, query
        assert exported.issuperset(names), query
    positions = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(positions)) == len({panel["id"] for panel in dashboard["panels"]}) == len(positions)


def test_every_metric_of_the_alerts_and_of_the_guide_is_exported(exported: set[str]) -> None:
    alerts = (FILES / "oahu-alerts.yml").read_text()
    guide = (DOCS / "guides" / "deployment.md").read_text(encoding="utf-8")
    names = re.findall(r"oahu_\w+", "".join(re.findall(r"expr:.*\n.*", alerts))) + re.findall(
        r"`(oahu_\w+)`", guide
    )
    assert len(names) >= 6
    assert exported.issuperset(names)


def test_the_dashboard_uses_every_gauge(exported: set[str]) -> None:
    text = (FILES / "grafana-dashboard.json").read_text()
    unused = {
        name
        for name in exported
        if name not in text and not name.endswith(("_created", "_sum")) and name != "oahu_request_seconds_bucket"
    }
    assert not unused


@pytest.mark.server
def test_the_settings_of_the_unit_exist_and_need_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = service_environment()
    names = {name for name in environment if name.startswith("OAHU_")}
    assert {name.removeprefix("OAHU_").lower() for name in names} <= Settings.model_fields.keys()
    for name in names:
        monkeypatch.setenv(name, environment[name])
    settings = Settings()
    assert (str(settings.data), settings.https, settings.trusted_hosts) == ("/var/lib/oahu", True, (HOST,))
    local = settings.model_copy(update={"data": tmp_path, "page": False})
    command = [sys.executable, "-m", "oahu", "serve", "--data", str(tmp_path), "--port", "0", "--no-page"]
    result = subprocess.run(
        command, capture_output=True, text=True
    )  # the command changes the loggers of its process
    assert result.returncode == 1
    assert "oahu keys add --role admin" in " ".join(result.stderr.split())
    key = KeyFile(tmp_path).add("ops", "admin")
    with serving(local) as client:
        headers = {"Authorization": f"Bearer {key}", "Host": HOST}
        assert client.get("/v1/collections", headers=headers).status_code == 200
        assert client.get("/v1/collections", headers=headers | {"Host": "other.example.org"}).status_code == 421
        assert client.get("/readyz").status_code == 200


def test_the_commands_of_the_units_exist(tmp_path: Path) -> None:
    serve = unit("oahu.service")["Service"]["ExecStart"].split()
    assert CliRunner().invoke(app, [serve[1], "--help"]).exit_code == 0
    assert serve[1:3] == ["serve", "--port"]
    with serving(Settings(data=tmp_path / "data", page=False)) as client:
        assert client.get("/healthz").status_code == 200
    backup = unit("oahu-backup.service")["Service"]["ExecStart"]
    found = re.search(r"oahu (backup) (--data) \S+ (--out) ", backup)
    assert found is not None
    command, data, out = found.groups()
    result = CliRunner().invoke(app, [command, data, str(tmp_path / "data"), out, str(tmp_path / "copy.db")])
    assert result.exit_code == 0
    assert (tmp_path / "copy.db").is_file()


def test_the_proxies_forward_to_the_port_of_the_unit() -> None:
    port = unit("oahu.service")["Service"]["ExecStart"].split()[-1]
    nginx, caddy = (FILES / "nginx.conf").read_text(), (FILES / "Caddyfile").read_text()
    assert set(re.findall(r"127\.0\.0\.1:(\d+)", nginx + caddy + (FILES / "prometheus.yml").read_text())) == {port}
    assert nginx.count("{") == nginx.count("}")
    assert HOST in caddy
    limit = Settings.model_fields["max_body"].default
    assert f"client_max_body_size {limit // 2**20}m;" in nginx
    (pattern,) = re.findall(r"location ~ (\S+)", nginx)
    paths = create_app_paths()
    assert [path for path in paths if re.match(pattern, path.replace("{name}", "teas"))] == [
        "/v1/collections/{name}/events"
    ]
    assert "/metrics" in paths


def create_app_paths() -> list[str]:
    from oahu.service.api.routes import ROUTERS

    return [route.path for router in ROUTERS for route in router.routes]  # type: ignore[attr-defined]


def test_the_guide_includes_every_file() -> None:
    guide = (DOCS / "guides" / "deployment.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\.\./deployment/([\w.-]+)", guide)) == {path.name for path in FILES.iterdir()}


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        assert unit("oahu-backup.timer")["Timer"]["OnCalendar"] == "*-*-* 03:15:00"
        return
    for path in [*FILES.glob("*.service"), *FILES.glob("*.timer")]:
        (tmp_path / path.name).write_text(path.read_text().replace("/opt/oahu/bin/oahu", "/bin/true"))
    names = [str(path) for path in sorted(tmp_path.iterdir())]
    done = subprocess.run([tool, "verify", "--man=no", *names], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
