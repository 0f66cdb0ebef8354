"""What serves and what was run before, in lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from deployctl.report import unreached
from deployctl.report.columns import columns
from deployctl.report.hosts_table import differences, table
from deployctl.steps.acceptance import AcceptanceStep, acceptance_sentence
from deployctl.steps.servers.stopping import REQUESTS, in_words

WORDS = {"stopped": "stopped", "absent": "nothing was started yet"}
"""States that are no failure; every other that is not healthy is one."""
STOPPED = (-9, -15)
"""Exit statuses of a server that deployctl stopped."""
HEALTHY = "healthy"
UNDECIDED = "it answers, and whether it generates is unknown"
NOT_PASSED = "it answers, and the serving release has NOT passed its gates"
DRAFTS_OTHERWISE = "it answers, and does NOT draft as proven"
NOT_PROVEN = "it answers, and is not proven"
ASLEEP = "asleep, its successor has not passed"
SHORT = {
    UNDECIDED: "unknown",
    NOT_PASSED: "NOT passed",
    DRAFTS_OTHERWISE: "NOT as proven",
    NOT_PROVEN: "not proven",
    ASLEEP: "asleep",
    WORDS["absent"]: "not started",
}
"""The same in a table."""


def status_lines(document: Mapping[str, Any], width: int | None = None) -> Iterator[str]:
    """A status in lines: of several hosts a table first, of `width` characters at most, then what
    differs, and all that is known of hosts that are not healthy."""
    hosts = document["hosts"]
    if len(hosts) < 2:
        yield from unreached.each(document, _status)
        return
    states = ["" if host.get("error") else _in_short(host) for host in hosts]
    yield from table(hosts, states, width)
    yield ""
    yield from differences(hosts)
    if "group" in document:
        yield _group(document["group"])
    rest = [host for host, state in zip(hosts, states, strict=True) if state != HEALTHY]
    yield from unreached.each({"hosts": rest}, _status)
    if len(rest) < len(hosts):
        yield f"all of one host: deployctl status -p {document['profile']} --host NAME"


def _group(group: Mapping[str, Any]) -> str:
    """A group's part of a status in a line."""
    first = group["first_to_end"]
    words = {True: "all ranks run as proven", None: "not all of its hosts were asked"}
    state = words.get(group["whole"], "NOT all ranks run as proven")
    if first is None:
        return f"group     {state}"
    status = first["status"]
    how = f"killed by signal {-status}" if status is not None and status < 0 else f"status {status}"
    said = f": {first['words']}" if first["words"] else ""
    named = f"rank {first['rank']} ({first['host']})"
    return f"group     {state}; {named} ended first last time, {how}{said}"


def _in_short(host: Mapping[str, Any]) -> str:
    """A host's state in a word or two."""
    return SHORT.get(_headline(host), _headline(host))


def _status(host: Mapping[str, Any]) -> Iterator[str]:
    yield f"{host['host']}  {_headline(host)}"
    yield f"  state     {_state(host)}"
    links = f"current {host['current'] or 'none'}, previous {host['previous'] or 'none'}"
    yield f"  release   {host['serving'] or _gone(host)} ({links})"
    yield from (f"  left      {holder}" for holder in host.get("left") or ())
    if host.get("left_unknown"):
        yield f"  left      not known: {host['left_unknown']}"
    if host.get("front"):
        yield f"  front     {host['front']['state']}, {_listens(host['front'])}"
    if host["pid"]:
        yield f"  process   {_process(host)}"
        if host.get("url"):
            yield f"  address   {host['url']}/v1, as {host['host']} itself reaches it"
        yield f"  liveness  {_liveness(host)}"
    yield f"  drafter   config.json {_config(host)}"
    if host["environment_damage"]:
        yield f"  build     its environment is DAMAGED: {host['environment_damage'][0]}"
    if host[AcceptanceStep.name]:
        yield f"  accepted  {acceptance_sentence(host[AcceptanceStep.name])}"
    if host["last_run"]:
        last = host["last_run"]
        ended = ", ".join(filter(None, (last["outcome"], in_words({REQUESTS: last}))))
        yield f"  last run  {last['run']} {last.get('playbook')}: {ended}"
    if host["open_run"]:
        yield f"  open run  {_open_run(host['open_run'])}"
    for gate, said in host["verdicts"].items():
        of = "" if said["this_process"] or not host["pid"] else ", on an earlier process"
        yield f"  {gate:<9} last verdict {said['verdict']}, measured{of} {when(said['time'])}"


def unknown(host: Mapping[str, Any]) -> bool:
    """Whether a host's server may be healthy: all that was asked is well, but whether it generates
    is not known."""
    health = host.get("health") or {}
    running = host["state"] == "running" and health.get("status") == 200
    return running and host.get("generates") is None and not host["healthy"]


def _gone(host: Mapping[str, Any]) -> str:
    """The release of a server that is gone without having been stopped."""
    last = host.get("last_serving")
    return f"none; {last} is {host['state']}" if last else "none"


def _listens(front: Mapping[str, Any]) -> str:
    words = {True: "its port is open", False: "its port is NOT open"}
    return words.get(front["listening"], "whether its port is open is unknown")


def _config(host: Mapping[str, Any]) -> str:
    if host["unproven_release"]:
        return "of a release that has not passed"
    drift = {None: "unknown", True: "DRIFTED", False: "as proven"}[host["drift"]]
    other = ", and the running process loaded another one" if host["loaded_other"] else ""
    return f"{drift}{other}"


def _open_run(begun: Mapping[str, Any]) -> str:
    what = f"{begun['run']} {begun.get('playbook')}, begun {when(begun['time'])}"
    return f"{what}: running, or it died (then the next up recovers it)"


def _headline(host: Mapping[str, Any]) -> str:
    if host.get("asleep"):
        return ASLEEP
    if unknown(host):
        return UNDECIDED
    if not host["healthy"]:
        return WORDS.get(host["state"], "NOT healthy")
    if host["unproven_release"]:
        return NOT_PASSED
    if host["loaded_other"]:
        return DRAFTS_OTHERWISE
    return HEALTHY if host["proven"] else NOT_PROVEN


def _state(host: Mapping[str, Any]) -> str:
    if not host["pid"]:
        return f"{host['state']}{_exit(host)}"
    if host.get("rank"):
        return f"{host['state']}, rank {host['rank']} of its group"
    if host.get("asleep"):
        again = f"deployctl up -p {host['unit'].partition('.')[0]}"
        wakes = f"where the run died, the next one wakes it or goes on: {again}"
        return f"{host['state']}, asleep since {when(host['asleep']['since'])}; {wakes}"
    health = host["health"]
    answer = "unknown" if not health else health["error"] or f"/health {health['status']}"
    why = host.get("generates_why")
    life = f"whether it generates is unknown: {why}"
    if host.get("generates") is not None:
        life = "it generates" if host["generates"] else f"it does NOT generate: {why}"
    return f"{host['state']}, {answer}, {life}"


def _process(host: Mapping[str, Any]) -> str:
    parts = [f"{host['pid']} since {when(host['since'])}"]
    if host["restarts"]:
        times = "time" if host["restarts"] == 1 else "times"
        parts.append(f"restarted {host['restarts']} {times} by its supervisor{_exit(host)}")
    if not host["proven"]:
        parts.append("not the process that was proven: deployctl up proves it")
    return "; ".join(parts)


def _liveness(host: Mapping[str, Any]) -> str:
    """How its supervisor watches a server, and what it saw last."""
    found, wanted = host.get("liveness"), host.get("liveness_wanted")
    if not found:
        again = f"deployctl run redeploy -p {host['unit'].partition('.')[0]}"
        later = f"; the profile wants it on, from the next start ({again})" if wanted else ""
        return f"off: a server that hangs is not restarted{later}"
    parts = [f"on, every {found['interval']:g} s"]
    last = found["last"]
    if last:
        why = f" ({last['why']})" if last["why"] else ""
        parts.append(f"{last['verdict']}{why} {when(last['time'])}")
    if found["failures"]:
        parts.append(f"failure {found['failures']} of {found['allowed']}")
    if found["restarts"]:
        times = "time" if found["restarts"] == 1 else "times"
        parts.append(f"restarted {found['restarts']} {times} because it hung")
    if wanted is False:
        parts.append("the profile wants it off, from the next start")
    return "; ".join(parts)


def _exit(host: Mapping[str, Any]) -> str:
    """How the last process ended, where that is known and was not our own signal."""
    last = host["last_exit"]
    if last is None:
        return ""
    status = last["status"]
    how = ""
    if status is not None and not (host["state"] == "stopped" and status in STOPPED):
        how = f", killed by signal {-status}" if status < 0 else f", status {status}"
    return f"{how}, ended {when(last['time'])}"


def history_lines(document: Mapping[str, Any], width: int | None = None) -> Iterator[str]:
    """A ledger in lines, oldest first; of several hosts one table, a row for each host of a run."""
    hosts = document["hosts"]
    if len(hosts) < 2:
        yield from unreached.each(document, _history)
        return
    runs = [(entry, host["host"]) for host in hosts for entry in host["runs"]]
    runs.sort(key=lambda run: (run[0]["run"], run[0]["time"]))
    rows = [_row(entry, host) for entry, host in runs]
    if rows:
        yield from columns(rows, HEADS, width, ("by", "changed", "length"))
    yield from unreached.each({"hosts": [host for host in hosts if host.get("error")]}, _history)
    for host in hosts:
        if not host["runs"] and not host.get("error"):
            yield f"{host['host']}  no runs"
        yield from (f"{host['host']}  damaged line: {line[:60]!r}" for line in host["damaged"])


HEADS = ("run", "host", "playbook", "outcome", "release", "length", "by", "changed")


def _row(entry: Mapping[str, Any], host: str) -> dict[str, str]:
    length = entry.get("figures", {}).get("mean_acceptance_length")
    return {
        "run": entry["run"],
        "host": host,
        "playbook": entry.get("playbook") or "",
        "outcome": entry["outcome"],
        "release": entry["release"] or "none",
        "length": f"{length:.2f}" if length is not None else "",
        "by": f"{entry.get('user') or 'unknown'} from {entry.get('from') or 'unknown'}",
        "changed": ", ".join(entry.get("changed", [])) or "nothing",
    }


def _history(host: Mapping[str, Any]) -> Iterator[str]:
    yield host["host"]
    for entry in host["runs"]:
        length = entry.get("figures", {}).get("mean_acceptance_length")
        figure = f"  mean acceptance length {length:.2f}" if length is not None else ""
        changed = ", ".join(entry.get("changed", [])) or "nothing"
        who = f"{entry.get('user') or 'unknown'} from {entry.get('from') or 'unknown'}"
        yield (
            f"  {when(entry['time'])}  {entry['run']}  {entry.get('playbook') or '':<9} "
            f"{entry['outcome']:<11} release {entry['release'] or 'none'}  by {who}  "
            f"changed {changed}{figure}"
        )
    if not host["runs"]:
        yield "  no runs"
    for line in host["damaged"]:
        yield f"  damaged line: {line[:60]!r}"


def when(seconds: float) -> str:
    """A time in UTC, given in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
