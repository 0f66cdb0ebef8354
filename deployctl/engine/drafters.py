"""Drafter configs looked at and changed apart from a run: on a host, or in a file here."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.engine.connect import Connected, connect
from deployctl.engine.plan import ask, questions
from deployctl.errors import ConfigError, HostError, UsageError
from deployctl.hosts.local import LocalTransport
from deployctl.hosts.session import Session
from deployctl.steps.drafter import DrafterStep, checks_of, wanted_config
from deployctl.steps.interface import Answers, Deployment
from deployctl.vllm.drafters.drafter import (
    Desired,
    DrafterConfigError,
    config_changes,
    desired,
    parse,
)
from deployctl.vllm.drafters.drafter_checks import check, errors
from deployctl.vllm.drafters.drafter_verdicts import Check, Circumstances


@dataclass(frozen=True)
class InUse:
    """A drafter's config.json where it lies; `wanted` is None for a file without a profile."""

    host: str
    path: str
    text: str
    wanted: Desired | None = None
    checks: tuple[Check, ...] = ()

    def differences(self) -> list[dict[str, Any]]:
        """The keys that differ from the wanted ones: key, actual, wanted."""
        if self.wanted is None:
            return []
        changed = config_changes(parse(self.text), self.wanted.config)
        return [{"key": c.key, "actual": c.old, "wanted": c.new} for c in changed]

    def document(self) -> dict[str, Any]:
        return {
            "host": self.host,
            "path": self.path,
            "config": parse(self.text),
            "differences": self.differences(),
            "checks": [asdict(c) for c in self.checks],
        }


def on_hosts(profile: Profile) -> list[InUse]:
    """The config that each host's current release serves with, beside the wanted one."""
    found = []
    for host in profile.hosts:
        with connect(host) as connected:
            found.append(_in_use(*_asked(profile, host, connected.session)))
    return found


def _in_use(wanted: Deployment, answers: Answers) -> InUse:
    profile, host = wanted.profile, wanted.host
    release = answers["releases"]["current"]
    view = answers["drafter.views"].get(release) if release else None
    if view is None or view["config"] is None:
        raise HostError(
            host.name,
            "no release with a drafter is deployed here",
            next=f"run: deployctl up --profile {profile.name}",
        )
    try:
        config = wanted_config(wanted, answers)
    except DrafterConfigError as error:
        raise ConfigError(f"drafter.config of profile {profile.name}: {error}") from error
    path = f"{view['place']}/config.json"
    text = view["config"]["text"]
    return InUse(
        host.name, path, text, config, tuple(checks_of(wanted, answers, Desired(text, ())))
    )


def _asked(profile: Profile, host: HostSettings, session: Session) -> tuple[Deployment, Answers]:
    if profile.drafter is None or profile.drafter.model is None:
        raise UsageError(f"profile {profile.name} has no drafter model")
    wanted = Deployment(profile, host)
    answers, _ = ask(Connected(host, session, session), questions([DrafterStep()], wanted))
    return wanted, answers


def in_file(path: Path, overrides: Mapping[str, Any] | None = None) -> InUse:
    """A config.json of this machine, beside itself with a profile's overrides where given."""
    try:
        text = path.read_text(encoding="utf-8")
        parse(text)
        wanted = desired(text, overrides) if overrides is not None else None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except DrafterConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return InUse("file", str(path), text, wanted)


def check_file(path: Path, target: Path, method: str, tokens: int) -> InUse:
    """A config.json of this machine, checked against its target's config.json."""
    subject, against = in_file(path), in_file(target)
    around = Circumstances(parse(against.text), method, tokens)
    checks = tuple(check(parse(subject.text), around))
    return InUse(subject.host, subject.path, subject.text, None, checks)


def set_in_file(path: Path, overrides: Mapping[str, Any]) -> Desired:
    """Change keys of a config.json of this machine, whole or not at all, never through a link."""
    made = _edited(in_file(path), overrides)
    with tempfile.TemporaryDirectory(prefix="deployctl-") as root, _here(root) as session:
        _write(session, str(path.absolute()), made)
    return made


def set_on_hosts(profile: Profile, overrides: Mapping[str, Any]) -> list[tuple[InUse, Desired]]:
    """Change keys of the config that each host's current release serves with; refused where the
    result could not work."""
    done = []
    for host in profile.hosts:
        with connect(host) as connected:
            wanted, answers = _asked(profile, host, connected.session)
            subject = _in_use(wanted, answers)
            made = _edited(subject, overrides)
            wrong = errors(checks_of(wanted, answers, made))
            if wrong:
                raise UsageError(
                    f"{host.name}: that config cannot work, nothing was written",
                    "; ".join(f"{c.name}: {c.message}" for c in wrong),
                )
            _write(connected.session, subject.path, made)
            done.append((subject, made))
    return done


def _edited(subject: InUse, overrides: Mapping[str, Any]) -> Desired:
    try:
        return desired(subject.text, overrides)
    except DrafterConfigError as error:
        raise UsageError(str(error)) from error


def _write(session: Session, path: str, made: Desired) -> None:
    if not made.changed:
        return
    session.call("files.write", path=path, text=made.text)
    read = session.call("files.read", path=path)
    if read["text"] != made.text:
        raise HostError(session.name, f"{path} does not hold what was written")


@contextmanager
def _here(root: str) -> Iterator[Session]:
    with Session(LocalTransport("file"), root=root) as session:
        yield session


def assignments(words: Sequence[str]) -> dict[str, Any]:
    """`KEY=VALUE` words; a value is JSON where it is that, else text."""
    found: dict[str, Any] = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not key:
            raise UsageError(f"{word} is no KEY=VALUE")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found
