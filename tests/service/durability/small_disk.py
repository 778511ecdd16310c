"""Run a service on a small disk that is filled and emptied again, and print a JSON report.

Run it in a namespace with the disk mounted at FOLDER: ``small_disk.py FOLDER``.
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
    "parameters": {"n_random": 8},
}


def fill_up(file: Path) -> None:
    """Fill the disk except for 100 kB."""
    size = 65_536
    with file.open("wb", buffering=0) as out:
        while size:
            try:
                out.write(b"x" * size)
            except OSError:
                size //= 2
        out.truncate(out.tell() - 100_000)


def fill_by_requests(served: Any, records: list[Json], report: Json) -> int:
    """Add feedback and items until both are rejected; return the number of accepted records."""
    n_accepted = n_rejected = 0
    for record in records:
        answer = served.request("POST", "/feedback", {"feedback": [record]})
        n_accepted += answer.status_code == 200
        large = {"key": f"large {n_rejected}", "vector": [0.0] * 8, "payload": {"text": "x" * 20_000}}
        item = served.request("PUT", "/items", {"items": [large]})
        report["accepted"]["items"] += [large["key"]] * (item.status_code == 200)
        for one in (answer, item):
            if one.status_code != 200:
                n_rejected += 1
                report["rejected"].append([one.status_code, one.headers.get("Retry-After")])
        if n_rejected > 20:
            break
    return n_accepted


def scenario(disk: Path) -> Json:
    import oracle
    from in_process_service import InProcessService, records

    report: Json = {"rejected": [], "accepted": {"items": []}}
    data, filler = disk / "data", disk / "filler"
    served = InProcessService(data, CONFIG, snapshot_every=20)
    served.put(40)
    n_records = served.add_feedback(30, seed=1)
    served.model()
    fill_up(filler)
    n_records += fill_by_requests(served, records(200, seed=2), report)
    requests = ("GET", "/items"), ("GET", "/feedback"), ("POST", "/search", {"key": "i0"}), ("GET", "/model")
    report["answers while full"] = [served.request(*one).status_code for one in requests]
    report["start"] = opening_error(disk / "other")
    filler.unlink()
    report["accepted after"] = served.add_feedback(30, seed=3) - n_records
    report["accepted"] = {
        "items": [f"i{at}" for at in range(40)] + report["accepted"]["items"],
        "log": n_records + 30,
    }
    report["stored"] = {"items": served.keys(), "log": len(served.log())}
    model = served.model()
    report["model matches the log"] = model == oracle.expected_model(oracle.read(data, "triplets"))
    before = model, served.ranking()
    served.close()
    again = InProcessService(data, CONFIG)
    report["restart is equal"] = (again.model(), again.ranking()) == before
    again.close()
    return report


def opening_error(folder: Path) -> str | None:
    """Return the error message of opening a store on a full disk."""
    from oahu.service.errors import ServiceError
    from oahu.service.store import SQLiteStore

    try:
        SQLiteStore(folder).close()
    except (ServiceError, OSError) as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.stdout.write(json.dumps(scenario(Path(sys.argv[1]))))
