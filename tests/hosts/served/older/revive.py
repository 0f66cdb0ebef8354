"""An older deployctl's root as this host's own, with its supervisors and servers running again."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

from deployctl.steps.identity import digest
from deployctl.steps.models import sources
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.served.host import ServedHost
from tests.hosts.served.older.make import HERE, PYTHON, ROOT

Texts = dict[str, str]


def recorded(kind: str) -> dict[str, Any]:
    """What was recorded of one kind of profile: `ports`, `files` and `links` below the root."""
    found: dict[str, Any] = json.loads((HERE / f"{kind}.json").read_text("utf-8"))
    return found


def lay_out(root: Path, files: dict[str, str], links: dict[str, str]) -> None:
    """Write the files and links below a root."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".pyz":
            shutil.copyfile(HERE / "agent.pyz", path)
        else:
            path.write_text(text, encoding="utf-8")
    for name, target in links.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)


def revive(served: ServedHost, kind: str, ports: list[int], serves: dict[str, str]) -> None:
    """Lay out what was recorded, for this host's root, ports and environment, and start the
    servers in the directories `serves`, each proven as it was, with the URL where it answers."""
    found = recorded(kind)
    (key,) = (path.name for path in (served.root / "environments").iterdir())
    words = {
        ROOT: str(served.root),
        PYTHON: sys.executable,
        _environment(found): key,
        **{str(old): str(new) for old, new in zip(found["ports"], ports, strict=True)},
    }
    files, links = _replaced(found, words)
    documents = [json.loads(text) for name, text in files.items() if name.endswith(MANIFESTS)]
    ids = {one["release"]: digest(one["identity"]) for one in documents}
    files, links = _replaced({"files": files, "links": links}, ids)
    lay_out(served.root, files, links)
    # Beside the supervisors: the front runs from the agent's own place.
    for program in {word for text in files.values() for word in AGENT.findall(text)}:
        Path(program).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(HERE / "agent.pyz", program)
    for role in ("tiny-target", "tiny-dflash-stale"):
        place = served.root / sources.shipped(role).place[2:]
        shutil.copytree(sources.shipped(role).folder, place, dirs_exist_ok=True)
    for directory, url in serves.items():
        start(served.root / directory, url)


AGENT = re.compile(r'"([^"]*/agent/[0-9a-f]{64}\.pyz)"')
MANIFESTS = ("/manifest.json", "/failed.json")


def _environment(found: dict[str, Any]) -> str:
    manifests = (text for name, text in found["files"].items() if name.endswith("/manifest.json"))
    return str(json.loads(next(manifests))["identity"]["environment"])


def _replaced(
    found: dict[str, Any], words: dict[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Files and links with whole words replaced, in their names too."""
    known = re.compile(
        "|".join(rf"(?<![0-9a-zA-Z]){re.escape(word)}(?![0-9a-zA-Z])" for word in words)
    )

    def put(text: str) -> str:
        return known.sub(lambda match: words[match[0]], text)

    files, links = ({put(n): put(t) for n, t in found[kind].items()} for kind in ("files", "links"))
    return files, links


def start(directory: Path, url: str) -> None:
    """Start the older supervisor of a directory, as its agent had; its server was proven."""
    (directory / "record.json").unlink()
    program = [sys.executable, "-I", str(directory / "supervisor.pyz"), "server", str(directory)]
    # Left to itself as its agent left it: nobody here waits for its end.
    subprocess.run(["setsid", "--fork", *program], stderr=subprocess.DEVNULL, check=True)
    wait_for("the older server", lambda: _record(directory).get("state") == "running")
    wait_for("its answer", lambda: answers(url))
    made = {name: _record(directory)[name] for name in ("pid", "start")}
    proven = json.loads((directory / "kept").read_text("utf-8"))
    (directory / "kept").write_text(json.dumps(made), encoding="utf-8")
    # What was measured of the process that was recorded was measured of this one.
    for path in (*directory.parent.rglob("manifest.json"), *directory.parent.glob("ledger.jsonl")):
        old, new = (json.dumps(one, sort_keys=True)[1:-1] for one in (proven, made))
        path.write_text(path.read_text("utf-8").replace(old, new), encoding="utf-8")


def _record(directory: Path) -> dict[str, Any]:
    path = directory / "record.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def answers(url: str) -> bool:
    """Whether something answers there."""
    try:
        return httpx.get(url, trust_env=False, timeout=60).status_code == 200
    except httpx.HTTPError:
        return False
