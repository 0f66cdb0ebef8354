"""A host as a whole: where files and programs lie, its init, its limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from deployctl.agent.wire.machine import Folder, Machine
from deployctl.engine.inspect.checks.interface import There, found
from deployctl.hosts.operations import machine
from deployctl.hosts.session import Call
from deployctl.steps.gpus.finding import Finding, Verdict
from deployctl.steps.interface import Deployment, Key, Question

MACHINE = Key[Machine]("doctor.machine")
INODES_FAIL, INODES_WARN = 20_000, 150_000
"""Files of one environment with torch and vLLM: about 60,000."""
TMP_FREE = 1 << 30
"""Bytes that compilers and downloads need in the temporary folder."""
OPEN_FILES = 4096


def questions(wanted: Deployment) -> Sequence[Question[Any]]:
    return [Question(MACHINE, Call(machine.look))]


def folders(there: There) -> Iterator[Finding]:
    """The directory of deployctl, and the temporary one."""
    known = there.answers.get(MACHINE)
    if known is None:
        unknown = there.answers.unknown(MACHINE)
        yield found("root", "unknown", None, unknown.reason if unknown else "")
        return
    yield _root(known["root"])
    yield _tmp(known["tmp"])


def _root(root: Folder) -> Finding:
    path, left = root["path"], root["inodes_free"]
    elsewhere = "or name another directory in the host file: root: /path"
    if root["read_only"]:
        say = f"{path} is on a read-only file system; look why, {elsewhere}"
        return found("root", "failed", "read-only", say, (f"mount -o remount,rw {path}", "dmesg"))
    if not root["writable"]:
        say = f"{path} cannot be written (it is full, or not ours); free it, {elsewhere}"
        return found("root", "failed", "not writable", say, (f"df -h {path}", f"ls -ld {path}"))
    if root["noexec"]:
        say = f"{path} is mounted noexec: no program of an environment runs there; {elsewhere}"
        return found("root", "failed", "noexec", say, (f"mount -o remount,exec {path}",))
    if left is not None and left < INODES_WARN:
        say = f"{left} inodes are free at {path}, an environment needs about 60000; free some"
        verdict: Verdict = "failed" if left < INODES_FAIL else "warning"
        return found("root", verdict, left, say, (f"df -i {path}", "deployctl gc"))
    return found("root", "ok", path)


def _tmp(tmp: Folder) -> Finding:
    path = tmp["path"]
    if not tmp["writable"]:
        say = f"the temporary folder {path} cannot be written; free it or mount it again"
        return found("tmp", "failed", "not writable", say, (f"df -h {path}", f"ls -ld {path}"))
    if tmp["noexec"]:
        say = f"{path} is mounted noexec: compilers and Triton run programs from there"
        lines = (f"mount -o remount,exec {path}", "or in the profile: serve.env.TMPDIR: /path")
        return found("tmp", "warning", "noexec", say, lines)
    if tmp["free"] < TMP_FREE:
        mib = tmp["free"] >> 20
        say = f"{mib} MiB are free in {path}, compilers and downloads need 1024; free some"
        return found("tmp", "warning", f"{mib} MiB", say, (f"du -xsh {path}/*",))
    return found("tmp", "ok", path)


def services(there: There) -> Iterator[Finding]:
    """Who keeps a server alive: systemd, or a supervisor of ours that a logout must not end."""
    known = there.answers.get(MACHINE)
    if known is None:
        return
    if there.wanted.profile.serve.supervisor == "systemd" and known["systemd"]:
        say = f"serve.supervisor is systemd: {known['systemd']}; choose auto or agent"
        yield found("systemd", "failed", known["systemd"], say, ("serve: {supervisor: auto}",))
    elif known["kills_sessions"] and known["uid"] != 0 and not known["linger"]:
        user = known["user"]
        say = f"logind ends the processes of {user} at logout (KillUserProcesses=yes)"
        lines = (f"loginctl enable-linger {user}",)
        yield found("linger", "failed", False, f"{say}; let them stay", lines)
    else:
        yield found("systemd", "ok", known["systemd"] or "a system unit")


def limits(there: There) -> Iterator[Finding]:
    """How many files a server may open: one for each connection, and for each shard."""
    known = there.answers.get(MACHINE)
    if known is None or known["open_files"] is None:
        return
    if known["open_files"] >= OPEN_FILES:
        yield found("files", "ok", known["open_files"])
        return
    say = f"a server may open {known['open_files']} files at once; raise the limit to 65536"
    lines = ("* hard nofile 65536",)
    where = "/etc/security/limits.conf"
    yield found("files", "warning", known["open_files"], say, lines, where)
