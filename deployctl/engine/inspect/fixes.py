"""Known fixes of vLLM, asked of any tree: here, or on a host."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from deployctl.config.host import HostSettings
from deployctl.engine.connections.connect import connect
from deployctl.errors import DeployError, UsageError
from deployctl.hosts.operations import environment, modules, releases, units
from deployctl.hosts.session import Session
from deployctl.steps.identity import UnitId, full_name, unit_home
from deployctl.vllm.fixes.registry import probe_source

LIMIT = 120.0
"""Seconds for one tree; about one is usual."""
_RUN = (
    "import json, os, sys; answer = os.fdopen(os.dup(1), 'w'); os.dup2(2, 1); names = {}; "
    "exec(sys.stdin.read(), names); json.dump(names['examine'](sys.argv[1]), answer)"
)


def of_tree(path: Path) -> dict[str, Any]:
    """The verdicts for a folder of this machine that contains `vllm/`; no network, no vllm or
    torch imported. Raises `UsageError` where there is no vllm."""
    argv = [sys.executable, "-I", "-B", "-c", _RUN, str(path.resolve())]
    try:
        done = subprocess.run(
            argv, input=probe_source(), capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired as error:
        raise DeployError(f"{path}: the probes took longer than {LIMIT:g} s") from error
    if done.returncode != 0:
        raise DeployError(f"{path}: the probes ended", done.stderr[-2000:])
    try:
        report = json.loads(done.stdout)
    except ValueError as error:
        raise DeployError(
            f"{path}: the probes ended without an answer",
            done.stderr[-2000:],
            "code of that tree ended them: look at its files that name dflash",
        ) from error
    return _with_vllm(report, str(path))


def on_host(host: HostSettings, path: str | None) -> list[dict[str, Any]]:
    """The verdicts for a folder of a host, or for what each of its profiles serves now."""
    with connect(host) as connected:
        session = connected.session
        trees = {path: path} if path is not None else _current(session)
        if not trees:
            raise UsageError(
                f"nothing is deployed on {host.name}", next="name a folder that contains vllm/"
            )
        return [{**_ask(session, tree), "tree": name} for name, tree in trees.items()]


def _current(session: Session) -> dict[str, str]:
    """The environments' packages by the profiles that serve them."""
    found = {}
    for profile in session.call(releases.profiles):
        for name in session.call(units.listing, profile=profile):
            unit: UnitId = {"profile": profile, "unit": name}
            current = session.call(releases.state, **unit)["current"]
            if current is not None:
                place = f"{unit_home(unit)}/releases/{current}/environment"
                facts = session.call(environment.complete, environment=place)
                found[f"{full_name(profile, name)} {current}"] = str(facts["site_packages"])
    return found


def _ask(session: Session, tree: str) -> dict[str, Any]:
    report = session.call(
        modules.run,
        source=probe_source(),
        function="examine",
        args={"tree": tree},
        paths=["tree"],
        timeout=LIMIT,
    )
    return _with_vllm(report, tree)


def _with_vllm(report: dict[str, Any], tree: str) -> dict[str, Any]:
    if report.pop("problem", None):
        raise UsageError(
            f"{tree} contains no vllm", next="name the folder that contains vllm/ (site-packages)"
        )
    return report
