"""Hosts that share what one of them makes: real sshd, agents and uv, an index, and a hub.

`online` hosts reach the index and the hub; `offline` ones have a network of their own that leads
nowhere.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from deployctl.config.host import HostSettings
from deployctl.config.playbook import Playbook
from deployctl.config.profile import Profile
from deployctl.engine.ledger.record import HostRecord, RunRecord, StepRecord
from deployctl.engine.run import events
from deployctl.engine.run.coordinator import run, survey
from deployctl.engine.run.options import Options
from deployctl.hosts.session import Session
from deployctl.hosts.transports import transport
from tests.hosts.hub_stand_in import Hub, Repository
from tests.hosts.hub_stand_in import serve as serve_hub
from tests.hosts.lab.sshd import Sshd
from tests.hosts.served.many import Machine
from tests.hosts.shipping.index import HUB_CLIENT, Index
from tests.hosts.shipping.index import serve as serve_index

STAGING = ("build", "verify", "fetch")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPO = "toy/target"


class Fleet:
    """The hosts by name, their roots, and a profile that stages on all of them."""

    def __init__(self, directory: Path, index: Index, hub: Hub) -> None:
        self.directory = directory
        self.index = index
        self.hub = hub
        self.hosts: dict[str, dict[str, Any]] = {}
        self.sshds: dict[str, Sshd] = {}
        self.events: list[events.Event] = []
        self.build: dict[str, Any] = {
            "source": {"release": "1.2.3"},
            "python": "3.11",
            "target": "empty",
            "compile_bytecode": False,
            "env": {"UV_DEFAULT_INDEX": index.url},
        }
        self.share: dict[str, Any] = {"way": "controller"}
        self.model: dict[str, Any] = {"path": str(directory / "hub")}

    def clear(self) -> None:
        """Every host as it was before its first run; settings as a new fleet has them."""
        for name in self.hosts:
            for folder in self.root(name).iterdir():
                if folder.name != "agent":
                    shutil.rmtree(folder)
        self.share = {"way": "controller"}
        self.model = {"path": str(self.directory / "hub")}
        self.build["source"] = {"release": "1.2.3"}
        self.events.clear()

    def root(self, host: str) -> Path:
        return Path(self.hosts[host]["root"])

    def profile(self, hosts: Sequence[str] = ()) -> Profile:
        return Profile.model_validate(
            {
                "name": "shared",
                "hosts": [self.hosts[name] for name in hosts or self.hosts],
                "model": {**self.model, "served_name": "toy"},
                "build": self.build,
                "serve": {"port": 1, "env": {"HF_ENDPOINT": self.hub.url}},
                "share": self.share,
            }
        )

    def run(self, hosts: Sequence[str] = (), steps: Sequence[str] = STAGING) -> RunRecord:
        """Stage on these hosts, on all where none are named."""
        return run(self.profile(hosts), playbook(steps), Options(), self.events.append)

    def plan(self, hosts: Sequence[str] = ()) -> dict[str, Any]:
        found = survey(self.profile(hosts), playbook(STAGING), Options())
        return {one["host"]: one["plan"] for one in found}

    def session(self, host: str) -> Session:
        settings = HostSettings(**self.hosts[host])
        return Session(transport(settings), root=settings.root)

    def environments(self, host: str) -> list[Path]:
        return sorted((self.root(host) / "environments").glob("*/seal.json"))

    def notes(self) -> str:
        """What was reported about steps so far."""
        return "\n".join(e.text for e in self.events if isinstance(e, events.StepNote))


def playbook(steps: Sequence[str]) -> Playbook:
    return Playbook.model_validate({"name": "stage", "steps": [{"step": step} for step in steps]})


def host(record: RunRecord, name: str) -> HostRecord:
    return next(one for one in record.hosts if one.host == name)


def step(record: RunRecord, name: str, step: str) -> StepRecord:
    return next(one for one in host(record, name).steps if one.step == step)


@contextmanager
def fleet(directory: Path, online: Sequence[str], offline: Sequence[str] = ()) -> Iterator[Fleet]:
    """So many hosts, each with a root of its own."""
    model = directory / "hub"
    model.mkdir()
    (model / "config.json").write_text("{}")
    with ExitStack() as stack:
        index = stack.enter_context(serve_index(directory / "index"))
        hub = stack.enter_context(serve_hub({REPO: Repository(model, COMMIT)}))
        index.add("huggingface_hub", "0.30.0", {"huggingface_hub/__init__.py": HUB_CLIENT})
        index.add(
            "vllm",
            "1.2.3",
            {
                "vllm/__init__.py": "__version__ = '1.2.3'\n",
                "vllm/entrypoints/__init__.py": "def main():\n    print('served')\n",
            },
            scripts={"vllm": "vllm.entrypoints:main"},
            needs=("huggingface_hub",),
        )
        index.add("vllm", "9.9.9", {"vllm/__init__.py": ""})
        cut = next((directory / "index").rglob("vllm-9.9.9-*.whl"))
        cut.write_bytes(cut.read_bytes()[:200])
        made = Fleet(directory, index, hub)
        for name in online:
            (directory / name).mkdir()
            server = Sshd(directory / name)
            server.start()
            stack.callback(server.stop)
            made.sshds[name] = server
            root = directory / name / "root"
            made.hosts[name] = {**server.host_settings(name), "root": str(root)}
        for name in offline:
            # uv's cache is another way to what the index has.
            own = {"SetEnv": f"UV_CACHE_DIR={directory / name / 'uv'}"}
            machine = Machine(directory / name, name, own)
            stack.callback(machine.stop)
            made.sshds[name] = machine.sshd
            made.hosts[name] = machine.host_settings()
        for root in map(made.root, made.hosts):
            root.mkdir(mode=0o700, exist_ok=True)
        yield made
