"""A host that serves the stand-in: real agent, supervisor and processes, no vLLM to wait for."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from deployctl.agent.processes.processes import read_stat
from deployctl.config.host import HostSettings
from deployctl.config.loader import load_playbook, load_profile
from deployctl.config.profile import Profile
from deployctl.engine.connections.connect import Connected, ask, connect
from deployctl.engine.ledger.record import RunRecord
from deployctl.engine.run import events
from deployctl.engine.run.coordinator import deployments, run
from deployctl.engine.run.options import Options
from deployctl.engine.run.plan import questions
from deployctl.errors import ConnectionLost
from deployctl.hosts.session import Call
from deployctl.steps import registry
from deployctl.steps.build import BuildStep, environment_key
from deployctl.steps.interface import Answers, Deployment
from deployctl.vllm.fixes.registry import by_name
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.lab.ports import free_port
from tests.hosts.lab.processes import children, is_alive

T = TypeVar("T")
REPOSITORY = Path(__file__).parents[3]
STAND_IN = Path(__file__).parent / "vllm_stand_in.py"
PROFILE = """\
extends: demo
name: stand
hosts: [{{name: here, local: true, root: {root}}}]
serve: {{port: {port}, supervisor: agent, stop_grace: 2s}}
fixes: {{require: []}}
acceptance: {{max_prompts: 5}}
switch: {{warm: false}}
"""
COLD = "switch: {warm: false}"
FIXES = [{"fix": name, "verdict": "present"} for name in by_name()]
STALE = "drafter.config={dflash_config.mask_token_id: 0, dflash_config.target_layer_ids: [1, 3, 5]}"
"""A drafter config that starts and drafts badly: the acceptance gate finds it."""


REHEARSED = """\
import os, sys
from vllm.engine.arg_utils import EngineArgs
def main():
    if "--no-such-option" in sys.argv:
        import argparse
        argparse.ArgumentParser("vllm serve").error("unrecognized arguments: --no-such-option")
    EngineArgs().create_engine_config()
    # No rehearsal, which would have ended here: a process that waited is to serve.
    import runpy
    runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""A stand-in for vLLM's command line, as a rehearsal and a server that waited go through it."""
CONFIGURED = """\
import os, types
class EngineArgs:
    def create_engine_config(self):
        if os.environ.get("STAND_IN_FAULT") == "refuse":
            raise ValueError("the stand-in was told to refuse")
        model = types.SimpleNamespace(max_model_len=1024, dtype="torch.bfloat16")
        return types.SimpleNamespace(model_config=model)
"""


def install(site: Path) -> None:
    """A distribution `vllm` with records that are whole."""
    files = {
        "vllm/__init__.py": "",
        "vllm/engine/__init__.py": "",
        "vllm/engine/arg_utils.py": CONFIGURED,
        "vllm/entrypoints/__init__.py": "",
        "vllm/entrypoints/cli/__init__.py": "",
        "vllm/entrypoints/cli/main.py": REHEARSED,
        "vllm/sampling_params.py": "PARAMETERS = ()\n",
        "vllm-0.32.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0\n",
        "vllm-0.32.0.dist-info/INSTALLER": "stand-in\n",
    }
    record = "".join(f"{name},,{len(text)}\n" for name, text in files.items())
    for name, text in {**files, "vllm-0.32.0.dist-info/RECORD": record}.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")


LIMIT = 300.0
"""Seconds for a deployctl to end."""


class Running(subprocess.Popen[str]):
    """A deployctl that runs. Where the test fails while it does, it is killed."""

    stops_at = ""

    def told(self, words: str) -> str:
        """Wait until it says these words on stderr; the line. Fails where it ends without."""
        assert self.stderr is not None
        for line in self.stderr:
            if words in line:
                if self.stops_at and self.stops_at in line:
                    wait_for("it to stop", self._stands, LIMIT)
                return line
        raise AssertionError(f"it ended without a word of: {words}")

    def go_on(self, number: signal.Signals | None = None) -> None:
        """Let one that stopped itself go on, with this signal to be heard first."""
        if number is not None:
            self.send_signal(number)
        self.send_signal(signal.SIGCONT)

    def _stands(self) -> bool:
        stat = read_stat(self.pid)
        return stat is None or stat.state in "TZ"

    def kill(self) -> None:
        """Kill it, and wait until the agents here that it talked to have left: each holds a lock
        until it hears of that."""
        agents = children(self.pid)
        super().kill()
        wait_for("the end of its agents", lambda: not any(map(is_alive, agents)), LIMIT)

    def output(self) -> str:
        """Wait for its end; what it said on stdout."""
        output, _ = self.communicate(timeout=LIMIT)
        return output

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, error, traceback)


class ServedHost:
    """This machine with a root of its own, and an environment whose `vllm` is the stand-in."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "root"
        self.port = free_port()
        self.profile_file = directory / "stand.yaml"
        self._text = PROFILE.format(root=self.root, port=self.port)
        self.profile_file.write_text(self._text, encoding="utf-8")
        self.state = directory / "state"
        self._local = HostSettings(name="here", local=True, root=str(self.root))
        self._agent: Connected | None = None
        self.make_environment()

    def profile(self, *sets: str) -> Profile:
        return load_profile(str(self.profile_file), sets=list(sets), environ={}).profile.spread()

    def blue_green(self, blue: int, green: int) -> None:
        """Give the profile two slots, at these ports."""
        slots = f"blue: {{port: {blue}}}, green: {{port: {green}}}"
        text = self.profile_file.read_text("utf-8")
        assert COLD in text
        switch = f"switch: {{warm: false, strategy: blue-green, drain: 20s, {slots}}}"
        self.profile_file.write_text(text.replace(COLD, switch), encoding="utf-8")

    def sleeping(self) -> None:
        """Let what serves sleep while its successor is started, at two more ports."""
        slots = f"blue: {{port: {free_port()}}}, green: {{port: {free_port()}}}"
        text = self.profile_file.read_text("utf-8")
        assert COLD in text
        switch = f"build: {{target: empty}}\nswitch: {{warm: false, strategy: sleep, {slots}}}"
        self.profile_file.write_text(text.replace(COLD, switch), encoding="utf-8")
        self.make_environment()

    def make_environment(self, *sets: str) -> str:
        """A sealed environment for the profile; returns its key."""
        profile = self.profile(*sets)
        wanted = deployments(profile, load_playbook("up", registry.options()), Options())[0]
        key = environment_key(wanted, self._asked(wanted))
        environment = self.root / "environments" / key
        (environment / "bin").mkdir(parents=True)
        program = environment / "bin" / "vllm"
        program.write_text(f"#!{sys.executable}\n" + STAND_IN.read_text("utf-8"), encoding="utf-8")
        site = environment / "lib" / "python3.11" / "site-packages"
        python = environment / "bin" / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} "$@"\n')
        for made in (program, python):
            made.chmod(0o755)
        install(site)
        evidence = {
            "build": {"key": key, "strategy": "stand-in", "version_installed": "0.32.0"},
            "verify": {
                "freeze": "stand-in",
                "packages": {"vllm": "0.32.0"},
                "problems": [],
                "fixes": FIXES,
            },
        }
        seal = {"key": key, "evidence": evidence}
        (environment / "seal.json").write_text(json.dumps(seal), encoding="utf-8")
        return key

    def _asked(self, wanted: Deployment) -> Answers:
        """What the environment's key follows from: a moving source, what is built already."""
        asked = questions([BuildStep()], wanted)
        if wanted.host == self._local:
            return self._here(lambda agent: ask(agent, asked)[0])
        with connect(wanted.host) as connected:
            return ask(connected, asked)[0]

    def up(
        self,
        *sets: str,
        playbook: str = "up",
        listen: events.Listener = events.nobody,
        **options: Any,
    ) -> RunRecord:
        """Run a playbook in this process."""
        chosen = load_playbook(playbook, registry.options())
        return run(self.profile(*sets), chosen, replace(Options(), **options), listen)

    def command(self, *argv: str, stops_at: str = "") -> list[str]:
        """deployctl's command line, for a process of its own."""
        verb, *rest = argv
        program = ["tests.hosts.served.stopping", stops_at] if stops_at else ["deployctl"]
        return [sys.executable, "-m", *program, verb, "-p", str(self.profile_file), *rest]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(REPOSITORY), "XDG_STATE_HOME": str(self.state)}

    def start(self, *argv: str, signals: str = "default", stops_at: str = "") -> Running:
        """deployctl as a process of its own. `signals` that would end it are at their default,
        whatever this test run was started with, or at "ignore", as nohup leaves them. Whenever it
        has said the words `stops_at`, it stops until it is to `go_on`."""
        command = self.command(*argv, stops_at=stops_at)
        running = Running(
            ["env", f"--{signals}-signal=HUP,INT,TERM", *command],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.stops_at = stops_at
        return running

    def supervised(self) -> dict[str, Any]:
        """What the server's supervisor wrote last."""
        path = self.root / "profiles/stand/units/server/server/record.json"
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return found

    def ask(self, op: str, **args: Any) -> Any:
        """One question to the host's agent."""
        changed = self.profile_file.read_text("utf-8") != self._text
        if changed and (host := self.profile().hosts[0]) != self._local:
            with connect(host) as connected:
                return connected.session.call(op, **args)
        return self._here(lambda agent: agent.session.call(op, **args))

    def _here(self, ask: Callable[[Connected], T]) -> T:
        """Ask an agent that stays from one question to the next, most of whose price is its start.
        Where the test has ended it, another comes."""
        if self._agent is None:
            self._agent = connect(self._local)
        try:
            return ask(self._agent)
        except ConnectionLost:
            self.leave()
            self._agent = connect(self._local)
            return ask(self._agent)

    def leave(self) -> None:
        """End the agent that stays."""
        if self._agent is not None:
            self._agent.close()
            self._agent = None

    def unit(self, name: str = "stand") -> dict[str, Any]:
        profile, _, unit = name.partition(".")
        found: dict[str, Any] = self.ask("units.state", profile=profile, unit=unit or "server")
        return found

    def releases(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("releases.state", profile="stand", unit="server", last=0)
        return found

    def ledger(self, kind: str = "end") -> list[dict[str, Any]]:
        entries = self.ask("releases.ledger", profile="stand")
        return [entry for entry in entries if entry["kind"] == kind]

    def close(self) -> None:
        """Stop what serves and builds; nothing of the host outlives the test."""
        # From here, whatever way in the test has given it.
        self._here(_stop_everything)
        self.leave()
        shutil.rmtree(self.root, ignore_errors=True)


def _stop_everything(agent: Connected) -> None:
    units = agent.session.call("units.listing", profile="stand")
    agent.session.ask([Call("units.stop", profile="stand", unit=unit, grace=0.5) for unit in units])
    for job in agent.session.call("jobs.listing"):
        agent.session.call("jobs.stop", id=job["id"], grace=0.5)
