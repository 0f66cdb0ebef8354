"""What a profile makes run, and what leaves this machine for it: shown before anything does."""

from __future__ import annotations

import getpass
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deployctl.config.hooks import HookSettings
from deployctl.config.host import HostSettings, SshSettings
from deployctl.config.marks import trusts_remote_code
from deployctl.config.playbook import Playbook
from deployctl.config.profile import Profile
from deployctl.config.routed import is_loopback, is_open
from deployctl.errors import HostError
from deployctl.hosts import ssh_config

SSH_FILES = ("~/.ssh/config", "/etc/ssh/ssh_config")
BUILD_USER = "deployctl-build"
"""As whom the agent builds what comes from git where it is root."""
_EXEC = re.compile(r"^[ \t]*match\b.*\bexec\b[ \t=]*(.*)$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """A program that would run: where (`here` or a host's name), what, and what names it."""

    where: str
    what: str
    named_by: str


@dataclass(frozen=True)
class Variable:
    """A variable of this environment whose value would leave: its name, where to, for what."""

    name: str
    to: str
    named_by: str


def document(profile: Profile, playbook: Playbook) -> dict[str, Any]:
    """`programs`, `variables` and `warnings` of a profile under a playbook."""
    return {
        "programs": [asdict(one) for one in programs(profile, playbook)],
        "variables": [asdict(one) for one in variables(profile, playbook)],
        "warnings": list(warnings(profile)),
    }


def programs(profile: Profile, playbook: Playbook) -> Iterator[Program]:
    """Every program that is not a part of deployctl and that the profile chooses."""
    for host in profile.hosts:
        yield from _ways(host)
    hosts = ", ".join(host.name for host in profile.hosts)
    for named_by, hook in _hooks(playbook):
        where = "here" if hook.where == "here" else hosts
        yield Program(where, shlex.join(hook.run), named_by)
    for user, names in _by_user(profile.hosts).items():
        builder = _builder(profile, user)
        whom = f"and its server, as {user}" if builder == user else f"as {builder}"
        if builder != user:
            yield Program(names, f"the server of that vLLM, as {user}", "build.source")
        yield Program(names, f"the build of vLLM {_source(profile)}, {whom}", "build.source")
    yield from _router_program(profile)
    if trusts_remote_code(profile.serve.args):
        models = [profile.model, *([profile.drafter.model] if profile.drafter else [])]
        for model in models:
            if model is not None and model.bundled is None:
                what = f"the Python files of the model {model.repo or model.path}"
                yield Program(hosts, what, "serve.args.trust-remote-code")


def variables(profile: Profile, playbook: Playbook) -> Iterator[Variable]:
    """Every variable that the profile or its playbook sends away."""
    hosts = ", ".join(host.name for host in profile.hosts)
    for name, secret in profile.serve.secrets.items():
        yield Variable(secret.env, hosts, f"serve.secrets.{name}")
    if profile.serve.api_key is not None:
        yield Variable(profile.serve.api_key.env, hosts, "serve.api_key")
    for number, told in enumerate(profile.notify):
        yield Variable(told.webhook.env, "the URL that it holds", f"notify.{number}.webhook")
    for named_by, hook in _hooks(playbook):
        to = f"the program {hook.run[0]}, {'here' if hook.where == 'here' else hosts}"
        for name in hook.env:
            yield Variable(name, to, named_by)


def warnings(profile: Profile) -> Iterator[str]:
    """What others can do, where nothing keeps them from it."""
    source = profile.build.source
    root = _by_user(profile.hosts).get("root")
    if root and (source.pr is not None or source.ref is not None):
        when = "" if profile.build.user in (None, "root") else " when it serves"
        if profile.build.user is None:
            when = f" when it serves, and in the build where {BUILD_USER} cannot be used"
        yield (
            f"build.source: code {_source(profile)} runs as root on {root}{when}; a user of its"
            " own (ssh.user) keeps it from the rest of the host"
        )
    yield from _router(profile)
    serve = profile.serve
    if serve.api_key is not None or is_loopback(serve.host):
        return
    names = ", ".join(host.name for host in profile.hosts)
    yield (
        f"serve.host is {serve.host} and there is no serve.api_key: whoever reaches port"
        f" {serve.port} of {names} can use the model and read its metrics, unless a firewall"
        " keeps them out"
    )


def _by_user(hosts: Sequence[HostSettings]) -> dict[str, str]:
    """Names of hosts by the user that the agent, and what it builds, runs as there."""
    found: dict[str, list[str]] = {}
    for host in hosts:
        found.setdefault(_user(host), []).append(host.name)
    return {user: ", ".join(names) for user, names in found.items()}


def _user(host: HostSettings) -> str:
    if host.local:
        return getpass.getuser() if os.geteuid() else "root"
    if host.ssh is None:
        return "root"  # what enters a container is root in it
    try:
        return host.ssh.user or ssh_config.resolve(host.name, host.ssh).user
    except HostError:
        return "an unknown user"  # the plan reports why


def _builder(profile: Profile, agent: str) -> str:
    """As whom a build's code runs, where the agent is this user; the host has the last word."""
    build = profile.build
    code_of_others = build.source.release is None and build.source.wheel is None
    if build.user is None and agent == "root" and code_of_others:
        return f"{BUILD_USER} (as root where the host has no namespaces)"
    return build.user or agent


def _router_program(profile: Profile) -> Iterator[Program]:
    router, host = profile.router, profile.router_host
    if router is not None and router.engine != "external" and host in profile.hosts:
        what = f"{router.engine} {router.version} from the package index, as {_user(host)}"
        yield Program(host.name, what, "router")


def _router(profile: Profile) -> Iterator[str]:
    router = profile.router
    if router is None:
        return
    if router.engine == "external":
        yield (
            "router.engine is external: no replica is taken out of it before it stops; requests"
            " under way end within serve.stop_grace, and new ones fail unless it retries them"
        )
    elif router.private_port is None and is_open(router.address):
        yield (
            f"router.address is {router.address}: whoever reaches port {router.port} of"
            f" {profile.router_host.name} can add and remove replicas, since the router has no key"
            " for that; give router.private_port, or bind it to a private address"
        )


def _hooks(playbook: Playbook) -> Iterator[tuple[str, HookSettings]]:
    for item in playbook.steps:
        for when, hooks in (("before", item.before), ("after", item.after)):
            for hook in hooks:
                yield f"playbook {playbook.name}: {when} {item.step}", hook
    for hook in playbook.after:
        yield f"playbook {playbook.name}: after", hook


def _ways(host: HostSettings) -> Iterator[Program]:
    for one in (host, *([host.node] if host.node else [])):
        if one.python != "python3":
            yield Program(one.name, one.python, f"hosts: {one.name}.python")
        if one.ssh is not None:
            yield from _of_ssh(one.name, one.ssh)


def _of_ssh(name: str, settings: SshSettings) -> Iterator[Program]:
    given = [settings.config_file] if settings.config_file else SSH_FILES
    for file, command in _match_exec(given):
        yield Program("here", command, f"Match exec in {file}, for {name}")
    try:
        command_of_proxy = ssh_config.resolve(name, settings).proxy_command
    except HostError:
        return  # the plan reports it
    if command_of_proxy:
        yield Program("here", command_of_proxy, f"ProxyCommand of ssh_config, for {name}")


def _match_exec(files: Sequence[str], depth: int = 0) -> Iterator[tuple[str, str]]:
    """Commands of `Match exec` in these files and in those that they include (ssh_config(5))."""
    for name in files:
        path = Path(name).expanduser()
        try:
            text = path.read_text("utf-8", "replace") if path.is_file() else ""
        except OSError:
            continue  # ssh itself says so
        for found in _EXEC.finditer(text):
            yield name, found.group(1).strip()
        for line in re.findall(r"(?im)^[ \t]*include[ \t=]+(.+)$", text) if depth < 16 else ():
            base = Path("~/.ssh").expanduser()
            for pattern in shlex.split(line, comments=True):
                start = Path(pattern).expanduser()
                full = start if start.is_absolute() else base / start
                inner = sorted(str(p) for p in Path("/").glob(str(full).lstrip("/")))
                yield from _match_exec(inner, depth + 1)


def _source(profile: Profile) -> str:
    source = profile.build.source
    if source.pr is not None:
        return f"from pull request {source.pr} of {source.url}"
    if source.ref is not None:
        return f"from {source.ref} of {source.url}"
    return source.release or source.wheel or source.path or "unknown"
