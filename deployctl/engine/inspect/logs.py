"""Look without touching: logs of servers, jobs and releases."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from deployctl import cancel
from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.engine.connections.connect import connect
from deployctl.engine.run import front
from deployctl.errors import NotReady, UsageError
from deployctl.hosts.operations import jobs, release_status, releases, units
from deployctl.hosts.session import Session
from deployctl.steps import replicas
from deployctl.steps.identity import UnitId

PAUSE = 0.5
"""Seconds between two looks at a log that is followed."""


@dataclass(frozen=True)
class Wanted:
    """Which log is wanted: the server's, of another unit, of a job, or of a release; how many of
    its last lines, and whether to go on with what is written to it."""

    lines: int
    follow: bool = False
    job: str | None = None
    release: str | None = None
    unit: str | None = None


def log(profile: Profile, wanted: Wanted) -> Iterator[str]:
    """The text of a log. Of several hosts: all lines of one after those of another, or as they are
    written where they are followed, each with its host in front; the first failure is raised once
    the others have ended."""
    if len(profile.hosts) == 1:
        yield from _on_host(profile, profile.hosts[0], wanted)
        return
    said: queue.Queue[tuple[int, str | BaseException | None]] = queue.Queue()
    for index, host in enumerate(profile.hosts):
        work = partial(_pass_on, profile, host, wanted, partial(_put, said, index))
        threading.Thread(target=work, name=f"logs {host.name}", daemon=True).start()
    yield from _merged([host.name for host in profile.hosts], said, wanted.follow)


Said = str | BaseException | None
"""Text of a host's log, why there is none, or None at its end."""


def _put(said: queue.Queue[tuple[int, Said]], index: int, item: Said) -> None:
    said.put((index, item))


def _pass_on(
    profile: Profile, host: HostSettings, wanted: Wanted, put: Callable[[Said], None]
) -> None:
    try:
        for text in _on_host(profile, host, wanted):
            put(text)
    except Exception as error:
        put(error)
    put(None)


def _merged(
    names: list[str], said: queue.Queue[tuple[int, Said]], as_written: bool
) -> Iterator[str]:
    """Every line with its host in front."""
    width = max(map(len, names))
    left, failures = set(range(len(names))), dict[int, BaseException]()
    texts = ["" for _ in names]
    while left:
        index, item = said.get()
        if isinstance(item, str):
            texts[index] += item
        else:
            left.discard(index)
            if item is not None:
                failures[index] = item
        if as_written:
            whole = texts[index].rfind("\n") + 1 if index in left else len(texts[index])
            yield _prefixed(names[index], width, texts[index][:whole])
            texts[index] = texts[index][whole:]
    for name, text in zip(names, texts, strict=True):
        yield _prefixed(name, width, text)
    if failures:
        raise failures[min(failures)]


def _prefixed(name: str, width: int, text: str) -> str:
    return "".join(f"{name:<{width}} | {line}\n" for line in text.splitlines())


def _on_host(profile: Profile, host: HostSettings, wanted: Wanted) -> Iterator[str]:
    with connect(host) as connected:
        session, job = connected.session, wanted.job
        if wanted.release is not None:
            text = _of_release(session, profile, host, wanted.release)
            yield "".join(text.splitlines(keepends=True)[-wanted.lines :])
            return
        unit = _unit(session, profile, host, wanted.unit)
        text, offset = _tail(session, unit, job)
        if not text:
            _check_written(session, profile, host, unit, job)
        yield "".join(text.splitlines(keepends=True)[-wanted.lines :])
        while wanted.follow:
            text, offset = _more(session, unit, job, offset)
            if text:
                yield text
            else:
                cancel.sleep(PAUSE)


def _unit(session: Session, profile: Profile, host: HostSettings, named: str | None) -> UnitId:
    """The unit whose log is wanted: the one that serves, unless another is named."""
    if named is None:
        return front.serving(session, replicas.placed(profile, host)).unit_id
    wanted = replicas.placed(profile, host)
    known = replicas.own_units(wanted, session.call(units.listing, profile=profile.name))
    if named not in known:
        raise UsageError(
            f"profile {profile.name} has no unit {named} on {host.name}",
            next=f"its units: {', '.join(known) or 'none'}",
        )
    return {"profile": profile.name, "unit": named}


def _check_written(
    session: Session, profile: Profile, host: HostSettings, unit: UnitId, job: str | None
) -> None:
    """Raise where there is nothing of which there could be a log."""
    if job is not None and session.call(jobs.state, id=job)["state"] == "none":
        known = [one["id"] for one in session.call(jobs.listing)]
        raise UsageError(f"there is no job {job}", next=f"jobs: {', '.join(known) or 'none'}")
    if job is None and session.call(units.state, **unit)["state"] == "absent":
        raise NotReady(
            host.name,
            "logs",
            "nothing has served",
            f"no server of profile {profile.name} was ever started here",
            f"run: deployctl up --profile {profile.name}",
        )


TAIL_BYTES = 256 * 1024


def _of_release(session: Session, profile: Profile, host: HostSettings, named: str) -> str:
    """The log of a release's server: the one that ran last, or what was kept when it failed."""
    known: list[str] = []
    found = session.call(units.listing, profile=profile.name)
    for name in replicas.own_units(replicas.placed(profile, host), found):
        now = found[name]
        unit: UnitId = {"profile": profile.name, "unit": name}
        there = session.call(releases.state, **unit, last=1)["releases"]
        known += there
        for release in there:
            if not release.startswith(named):
                continue
            if now["release"] == release:
                return _tail(session, unit, None)[0]
            kept = session.call(release_status.log, **unit, release=release, limit=TAIL_BYTES)
            if kept["text"] is not None:
                return kept["text"]
    raise UsageError(
        f"profile {profile.name}: no log of a release {named}",
        "logs are kept of what ran last and of releases that failed",
        f"its releases: {', '.join(known) or 'none'}",
    )


def _tail(session: Session, unit: UnitId, job: str | None) -> tuple[str, int]:
    return _more(session, unit, job, -TAIL_BYTES)


def _more(session: Session, unit: UnitId, job: str | None, offset: int) -> tuple[str, int]:
    """What the log holds from `offset` (from its end where negative)."""
    if job is not None:
        found = session.call(jobs.log, id=job, offset=offset, limit=TAIL_BYTES)
        return found["text"], found["offset"]
    part = session.call(units.log, **unit, offset=offset, limit=TAIL_BYTES)
    return part["text"], part["offset"]
