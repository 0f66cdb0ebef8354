"""What a host must reach: the index, the repository of a source, the hub. Each by the program that
the deployment uses, with the host's own configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from deployctl.agent.wire.answers import Listing
from deployctl.agent.wire.machine import Outside
from deployctl.agent.wire.stored import Model
from deployctl.engine.inspect.checks.interface import There, found
from deployctl.hosts.operations import files, outside
from deployctl.hosts.session import Call
from deployctl.steps.build import environment_key, sealed
from deployctl.steps.facts import DRAFTER, MODEL, SOURCE
from deployctl.steps.gpus.finding import Finding, Verdict
from deployctl.steps.interface import Answers, Deployment, Key, Question, Unanswered
from deployctl.steps.models import sources

INDEX = Key[Outside]("doctor.index")
GIT = Key[Outside]("doctor.git")
WHEELS = Key[Listing]("doctor.wheels")

REMEDIES = {
    "name": ("{host} cannot be resolved", ("getent hosts {host}", "cat /etc/resolv.conf")),
    "connect": (
        "no connection to {host}: open the way there, or set a proxy",
        ("curl -sI {url}", "HTTPS_PROXY=http://PROXY:PORT in /etc/environment"),
    ),
    "proxy": (
        "the proxy {proxy} does not lead to {host}: correct it, or except the host",
        ("env | grep -i proxy", "NO_PROXY={host} in /etc/environment"),
    ),
    "certificate": (
        "the certificate of {host} is not trusted: install its authority",
        ("cp AUTHORITY.pem /usr/local/share/ca-certificates/own.crt", "update-ca-certificates"),
    ),
    "answer": ("{host} answers, and not as wanted: correct the address", ("curl -sI {url}",)),
}
"""By the stage at which a connection ended: what to do, and what shows more."""
ACCESS = {
    "gated": (
        "accept the model's terms on the hub, and name a token",
        ("serve: {secrets: {HF_TOKEN: {env: HF_TOKEN}}}",),
    ),
    "denied": (
        "name a token that has access",
        ("serve: {secrets: {HF_TOKEN: {env: HF_TOKEN}}}",),
    ),
    "missing": ("correct the repository or the revision in the profile", ()),
}
"""By the hub's refusal."""
SOURCES = {
    "no-ref": "correct build.source.ref or pr: there is no such branch, tag or pull request",
    "ambiguous-ref": "write refs/heads/NAME or refs/tags/NAME in build.source.ref",
    "no-file": "correct build.source.path or wheel: it is a path on the host",
    "foreign": "run deployctl as the owner of that checkout",
}


def questions(wanted: Deployment) -> Sequence[Question[Any]]:
    build = wanted.profile.build
    asked: list[Question[Any]] = []
    if build.wheels_dir is not None:
        asked.append(Question(WHEELS, Call(files.list, path=build.wheels_dir)))
    if build.index != "none":
        asked.append(Question(INDEX, Call(outside.index, env=build.env)))
    if build.source.ref is not None or build.source.pr is not None:
        asked.append(Question(GIT, Call(outside.repository, url=build.source.url)))
    return asked


def built(there: There) -> bool:
    """Whether the wanted environment is there: then nothing is installed."""
    try:
        return sealed(there.answers, environment_key(there.wanted, there.answers)) is not None
    except Unanswered:
        return False


def index(there: There) -> Iterator[Finding]:
    """Where a build installs from: the index, or a folder of wheels."""
    build, listing = there.wanted.profile.build, there.answers.get(WHEELS)
    if build.wheels_dir is not None and listing is not None:
        wheels = sum(name.endswith(".whl") for name in listing["entries"])
        say = f"no wheel lies in {build.wheels_dir}; copy the wheels there (build.wheels_dir)"
        verdict: Verdict = "ok" if wheels else "warning" if built(there) else "failed"
        yield found("wheels", verdict, f"{wheels} wheels", "" if wheels else say)
    if build.index != "none":
        yield from _outside("index", there.answers, INDEX, built(there))


def repository(there: There) -> Iterator[Finding]:
    """The repository of a git source, and what the profile names in it."""
    source = there.wanted.profile.build.source
    if source.ref is not None or source.pr is not None:
        (finding,) = _outside("git", there.answers, GIT, built(there))
        yield finding
        if finding.verdict != "ok":
            return
    unknown = there.answers.unknown(SOURCE)
    if source.release is None and unknown is not None and unknown.kind in SOURCES:
        yield found("source", "failed", unknown.kind, f"{unknown.reason}; {SOURCES[unknown.kind]}")


def _outside(check: str, answers: Answers, key: Key[Outside], built: bool) -> Iterator[Finding]:
    answer, unknown = answers.get(key), answers.unknown(key)
    if answer is None:
        yield found(check, "unknown", None, unknown.reason if unknown else "")
    elif answer["stage"] == "ok":
        yield found(check, "ok", answer["url"])
    elif answer["stage"] == "program":
        # What is missing is a finding of its own, or is brought along.
        yield found(check, "ok", answer["why"])
    else:
        yield _ended(check, answer["stage"], answer["url"], answer["why"], answer["proxy"], built)


def _ended(
    check: str, stage: str, url: str, why: str, proxy: str | None, built: bool = False
) -> Finding:
    host = urlsplit(url).hostname or url
    what, lines = REMEDIES[stage]
    words = {"host": host, "url": url, "proxy": proxy or "in the environment"}
    say = f"{what.format(**words)} ({why})"
    verdict: Verdict = "warning" if built else "failed"
    return found(check, verdict, stage, say, [line.format(**words) for line in lines])


def models(there: There) -> Iterator[Finding]:
    """The models: folders that must lie on the host, repositories that the hub must give."""
    for key in (MODEL, DRAFTER):
        source = sources.source(there.wanted, key)
        answer = there.answers.get(key) if source is not None else None
        if source is None or answer is None:
            continue
        if source.path is not None and not answer["exists"]:
            say = f"{source.path} is not on the host; copy it there, or name it by repo:"
            yield found(str(key), "failed", "missing", say)
        elif source.repo is not None and answer["error"] is not None:
            index = there.answers.get(INDEX)
            yield _refused(str(key), answer, index and index["proxy"])
        else:
            yield found(str(key), "ok", source.path or source.repo or source.bundled)


def _refused(role: str, answer: Model, proxy: str | None) -> Finding:
    error = answer["error"]
    assert error is not None, "the hub refused"
    kind, words = error["kind"], error["message"]
    if kind in ACCESS:
        what, lines = ACCESS[kind]
        return found(role, "failed", kind, f"{words}; {what}", lines, "the profile")
    place, _, why = words.partition(": ")
    stage = _stage(why)
    if proxy and stage in ("connect", "name"):
        # The index is not reached through it either.
        stage = "proxy"
    return _ended(role, stage, place, why, proxy)


def _stage(words: str) -> str:
    """The hub is asked by Python, whose words these are."""
    signs = {
        "proxy": ("tunnel", "407"),
        "certificate": ("certificate", "ssl"),
        "name": ("resolution", "not known"),
        "connect": ("refused", "timed out", "unreachable", "reset"),
    }
    low = words.lower()
    return next((s for s, parts in signs.items() if any(p in low for p in parts)), "answer")
