"""Record what the deployctl of an older commit leaves on a host: two deployed releases, and one
that failed, once with a unit of its own and once with two slots.

    git archive 70dae64 | tar x -C OLDER
    PYTHONPATH=OLDER python tests/hosts/served/older/make.py FOLDER

The files of `@/profiles` go into `recreate.json` and `slots.json` beside this script, the agent
into `agent.pyz`. Paths of the machine are replaced, and what was seen of it is left out.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT, PYTHON, SEARCH = "/older/root", "/older/python", "/usr/bin:/bin"
OTHER = "serve.env.WHICH=other"
SEEN = ("clean", "preflight", "verify")
"""Steps whose evidence tells of the machine."""


def main(folder: Path) -> None:
    from tests.hosts.lab.ports import free_port
    from tests.hosts.served.host import STALE, ServedHost

    for kind in ("recreate", "slots"):
        (folder / kind).mkdir(parents=True)
        host = ServedHost(folder / kind)
        ports = [host.port]
        if kind == "slots":
            ports += [free_port(), free_port()]
            blue, green = (f"{{port: {port}}}" for port in ports[1:])
            slots = f"switch: {{strategy: blue-green, drain: 20s, blue: {blue}, green: {green}}}\n"
            with host.profile_file.open("a", encoding="utf-8") as file:
                file.write(slots)
        for sets in ([], [OTHER], [STALE]):
            host.up(*sets)
        shutil.copytree(host.root, folder / "kept" / kind, symlinks=True)
        host.close()
        pack(folder / "kept" / kind, str(host.root), kind, ports)


def pack(kept: Path, root: str, kind: str, ports: list[int]) -> None:
    """The profiles of a root, copied from `root` while it served, as one document."""
    files: dict[str, str] = {}
    links: dict[str, str] = {}
    for path in sorted((kept / "profiles").rglob("*")):
        name = str(path.relative_to(kept))
        if path.is_symlink():
            links[name] = str(path.readlink()).replace(root, ROOT)
        elif path.name == "supervisor.pyz":
            shutil.copyfile(path, HERE / "agent.pyz")
            files[name] = ""
        elif path.is_file() and not path.name.startswith("server.log"):
            files[name] = clean(path, root)
    document = {"ports": ports, "files": files, "links": links}
    (HERE / f"{kind}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def clean(path: Path, root: str) -> str:
    """A file's text without what is of the machine alone."""
    text = path.read_text("utf-8").replace(root, ROOT).replace(sys.executable, PYTHON)
    if path.suffix == ".jsonl":
        lines = [json.loads(line) for line in text.splitlines()]
        named = [{**line, "from": "controller"} if "from" in line else line for line in lines]
        return "".join(json.dumps(line, sort_keys=True) + "\n" for line in named)
    if path.name not in ("manifest.json", "failed.json", "launch.json", "spec.json", "kept"):
        return text
    found = json.loads(text)
    if isinstance(found.get("evidence"), dict):
        found["evidence"] = {k: v for k, v in found["evidence"].items() if k not in SEEN}
    if "env" in found:
        found["env"] |= {"PATH": SEARCH, "HOME": "/"}
    return json.dumps(found, sort_keys=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
