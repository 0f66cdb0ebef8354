"""Drafter configs looked at and changed apart from a run: on a host, or in a file here."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.engine.connections.connect import Connected, ask, connect
from deployctl.engine.inspect import drafter_files
from deployctl.engine.run import front
from deployctl.engine.run.next_steps import with_profile
from deployctl.engine.run.plan import questions, unanswered
from deployctl.errors import ConfigError, DeployError, HostError, StagingFailed, UsageError
from deployctl.hosts.operations import files
from deployctl.hosts.session import Session
from deployctl.hosts.ways.local import LocalTransport
from deployctl.steps import replicas
from deployctl.steps.builds.built import installed
from deployctl.steps.drafter import DrafterStep, checks_of, layer_offset, wanted_config
from deployctl.steps.facts import RELEASES, VIEWS
from deployctl.steps.interface import Answers, Deployment, Unanswered
from deployctl.steps.verify import VerifyStep
from deployctl.vllm.drafters import edits, several
from deployctl.vllm.drafters.drafter import (
    Desired,
    DrafterConfigError,
    config_changes,
    desired,
    parse,
)
from deployctl.vllm.drafters.drafter_checks import check, errors
from deployctl.vllm.drafters.drafter_verdicts import Check, Circumstances, judged


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
            wanted, answers = _asked(profile, host, connected.session)
            found.append(_in_use(connected.session, wanted, answers, profile.name))
    return found


def _in_use(session: Session, wanted: Deployment, answers: Answers, name: str) -> InUse:
    """The config in use; a failure names the profile."""
    try:
        return _read(session, wanted, answers)
    except Unanswered as error:
        raise unanswered(wanted.host.name, error) from error
    except DeployError as error:
        error.next = with_profile(error.next, name)
        raise


def _read(session: Session, wanted: Deployment, answers: Answers) -> InUse:
    profile, host = wanted.profile, wanted.host
    release = answers[RELEASES]["current"]
    view = answers[VIEWS].get(release) if release else None
    if view is None or view["config"] is None:
        raise UsageError(
            f"{host.name}: no release with a drafter is deployed here",
            next=f"run: deployctl up --profile {profile.name}",
        )
    try:
        config = wanted_config(wanted, answers)
    except DrafterConfigError as error:
        raise ConfigError(f"drafter.config of profile {profile.name}: {error}") from error
    path = f"{view['place']}/config.json"
    try:
        parse(view["config"]["text"])
    except DrafterConfigError as error:
        again = f"write it again: deployctl drafter --profile {profile.name}"
        raise StagingFailed(host.name, DrafterStep.name, f"{path}: {error}", next=again) from error
    found = InUse(host.name, path, view["config"]["text"], config)
    checks = _checks(session, wanted, answers, Desired(found.text, ()))
    return replace(found, checks=(*checks, *_as_wanted(found)))


def _checks(session: Session, wanted: Deployment, answers: Answers, config: Desired) -> list[Check]:
    """The checks against what the current release was built from, and what was probed of it."""
    releases = answers[RELEASES]
    manifest = releases["releases"].get(releases["current"] or "") or {}
    key = str((manifest.get("identity") or {}).get("environment"))
    known = installed(
        session, f"@/environments/{key}", wanted.profile.build.source.release, lambda line: None
    )
    seal = releases["environments"].get(key) or {}
    fixes = ((seal.get("evidence") or {}).get(VerifyStep.name) or {}).get("fixes") or ()
    return checks_of(wanted, answers, config, known, layer_offset(fixes))


def _as_wanted(used: InUse) -> Iterator[Check]:
    """Whether a config is what its profile wants: a stale one may look right in itself."""
    if used.wanted is None:
        return
    wrong = "; ".join(
        f"{one['key']} is {json.dumps(one['actual'])}, wanted {json.dumps(one['wanted'])}"
        for one in used.differences()
    )
    yield judged("as_wanted", bool(wrong), wrong)


def _asked(profile: Profile, host: HostSettings, session: Session) -> tuple[Deployment, Answers]:
    if profile.drafter is None or profile.drafter.model is None:
        raise UsageError(f"profile {profile.name} has no drafter model")
    wanted = front.serving(session, replicas.placed(profile, host))
    answers, _ = ask(Connected(host, session, session), questions([DrafterStep()], wanted))
    return wanted, answers


def in_file(path: Path, overrides: Mapping[str, Any] | None = None) -> InUse:
    """A config.json of this machine, beside itself with a profile's overrides where given."""
    try:
        # Not read_text: an edit keeps every other byte, line ends too.
        text = path.read_bytes().decode("utf-8")
        parse(text)
        wanted = desired(text, overrides) if overrides is not None else None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: config.json is not JSON: it is not UTF-8 text") from error
    except DrafterConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return InUse("file", str(path), text, wanted)


def check_file(
    path: Path,
    target: Path | None,
    method: str | None,
    tokens: int,
    overrides: Mapping[str, Any] | None = None,
) -> InUse:
    """A config.json of this machine (or the folder that holds it), checked against its target's
    config.json where given, and against a profile's overrides where given.

    Without a `method` it is the one that follows from the file. Raises `UsageError` for a folder
    with several drafters of which none can be chosen.
    """
    chosen, why = drafter_files.one_of(path, method)
    used = in_file(chosen, overrides)
    config = parse(used.text)
    against = {} if target is None else parse(in_file(drafter_files.config_json(target)).text)
    known = several.method_of(config, method)
    if isinstance(known, Check):
        checks = [known]
    else:
        checks = check(config, Circumstances(against, known, tokens))
    if target is None:
        checks = [drafter_files.without_target(one) for one in checks]
    return replace(used, checks=(*why, *checks, *_as_wanted(used)))


def set_in_file(path: Path, overrides: Mapping[str, Any], new: bool = False) -> Desired:
    """Change keys of a config.json of this machine, whole or not at all, never through a link.

    `new` allows keys that it lacks and that have no known reader; so for `set_on_hosts`.
    """
    used = in_file(path)
    made = _edited(used, overrides)
    _refuse(used, edits.refused(parse(used.text), made.config), ("keys",) if new else ())
    with tempfile.TemporaryDirectory(prefix="deployctl-") as root, _here(root) as session:
        _write(session, str(path.absolute()), made)
    return made


def set_on_hosts(
    profile: Profile, overrides: Mapping[str, Any], new: bool = False
) -> list[tuple[InUse, Desired]]:
    """Change keys of the config that each host's current release serves with; refused where the
    result could not work."""
    done = []
    softened = ["keys"] if new else []
    if profile.drafter is not None:
        softened += profile.drafter.warn_only
    for host in profile.hosts:
        with connect(host) as connected:
            wanted, answers = _asked(profile, host, connected.session)
            used = _in_use(connected.session, wanted, answers, profile.name)
            made = _edited(used, overrides)
            _refuse(used, edits.refused(parse(used.text), made.config), softened)
            # A key that was put there on purpose is not held against the next change.
            _refuse(used, _checks(connected.session, wanted, answers, made), ("keys",))
            _write(connected.session, used.path, made)
            done.append((used, made))
    return done


def _refuse(used: InUse, checks: Sequence[Check], softened: Sequence[str]) -> None:
    wrong = [c for c in errors(checks) if c.name not in softened]
    if wrong:
        raise UsageError(
            f"{used.host}: the config cannot work, nothing was written",
            "; ".join(f"{c.name}: {c.message}" for c in wrong),
            "correct it, or give --new for new keys"
            if any(c.name == "keys" for c in wrong)
            else "",
        )


def _edited(used: InUse, overrides: Mapping[str, Any]) -> Desired:
    try:
        return desired(used.text, overrides)
    except DrafterConfigError as error:
        raise UsageError(str(error)) from error


def _write(session: Session, path: str, made: Desired) -> None:
    if not made.changed:
        return
    session.call(files.write, path=path, text=made.text)
    read = session.call(files.read, path=path)
    if read["text"] != made.text:
        raise HostError(session.name, f"{path} does not contain what was written")


@contextmanager
def _here(root: str) -> Iterator[Session]:
    with Session(LocalTransport("file"), root=root) as session:
        yield session


def assignments(words: Sequence[str]) -> dict[str, Any]:
    """`KEY=VALUE` words; a value is JSON where it is that, else text.

    Raises `UsageError` for what no JSON file can hold: NaN, Infinity, half a character.
    """
    found: dict[str, Any] = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not key:
            raise UsageError(f"{word} is not KEY=VALUE")
        try:
            found[key] = json.loads(value)
        except (ValueError, RecursionError):
            found[key] = value
        try:
            json.dumps({key: found[key]}, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError) as error:
            said = ascii(word)[1:-1][:80]
            raise UsageError(f"{said}: JSON cannot represent that", str(error)) from error
    return found
