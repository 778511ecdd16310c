"""A service on a small disk of its own, which is filled up and emptied again; what happened, as JSON.

It runs in a namespace where the disk is mounted: ``small_disk.py FOLDER``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]

CONFIG: Json = {
    "name": "triplets",
    "dimension": 8,
    "learner": "AnchoredOAHU",
    "parameters": {"n_layers": 1, "hidden_size": 6, "embedding_size": 4, "window": 7},
}


def fill_up(file: Path) -> None:
    """Leave hardly any space."""
    size = 65_536
    with file.open("wb", buffering=0) as out:
        while size:
            try:
                out.write(b"x" * size)
            except OSError:
                size //= 2
        out.truncate(out.tell() - 100_000)


def use_up(served: Any, pieces: list[Json], report: Json) -> int:
    """Say one piece after the other, and put items, until both are refused; how many pieces were accepted."""
    n_accepted = n_refused = 0
    for piece in pieces:
        answer = served.ask("POST", "/feedback", {"feedback": [piece]})
        n_accepted += answer.status_code == 200
        large = {"key": f"large {n_refused}", "vector": [0.0] * 8, "payload": {"text": "x" * 20_000}}
        item = served.ask("PUT", "/items", {"items": [large]})
        report["accepted"]["items"] += [large["key"]] * (item.status_code == 200)
        for one in (answer, item):
            if one.status_code != 200:
                n_refused += 1
                report["refused"].append([one.status_code, one.headers.get("Retry-After")])
        if n_refused > 20:
            break
    return n_accepted


def scenario(disk: Path) -> Json:
    import oracle
    from served import Served, pieces

    report: Json = {"refused": [], "accepted": {"items": []}}
    data, ballast = disk / "data", disk / "ballast"
    served = Served(data, CONFIG, snapshot_every=20)
    served.put(40)
    said = served.say(30, seed=1)
    served.model()
    fill_up(ballast)
    said += use_up(served, pieces(200, seed=2), report)
    asked = ("GET", "/items"), ("GET", "/feedback"), ("POST", "/search", {"key": "i0"}), ("GET", "/model")
    report["answers while full"] = [served.ask(*one).status_code for one in asked]
    report["start"] = start(disk / "other")
    ballast.unlink()
    report["accepted after"] = served.say(30, seed=3) - said
    report["accepted"] = {"items": [f"i{at}" for at in range(40)] + report["accepted"]["items"], "log": said + 30}
    report["there"] = {"items": served.keys(), "log": len(served.log())}
    model = served.model()
    report["model is the log"] = model == oracle.learned(oracle.read(data, "triplets"))
    before = model, served.ranking()
    served.close()
    again = Served(data, CONFIG)
    report["restart is equal"] = (again.model(), again.ranking()) == before
    again.close()
    return report


def start(folder: Path) -> str | None:
    """What a store says that is to begin on a full disk."""
    from oahu.service.errors import ServiceError
    from oahu.service.store import SQLiteStore

    try:
        SQLiteStore(folder).close()
    except (ServiceError, OSError) as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.stdout.write(json.dumps(scenario(Path(sys.argv[1]))))
