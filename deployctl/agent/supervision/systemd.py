"""A server's supervisor as a systemd unit: starts at boot, has a control group and a journal.

The unit runs the same supervisor that is used elsewhere, so states and limits are the same; systemd
adds what needs it. `daemon-reload` is avoided where it can be: on a node it takes the GPUs away
from running containers.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from typing import Dict, List, Optional

from ..core import layout
from ..core.atomic_files import write_text
from ..core.interface import AgentError, Call

DEFAULT_ROOT = "/var/lib/deployctl"
UNITS = "/etc/systemd/system"
WANTS = UNITS + "/multi-user.target.wants"
TEMPLATE = """\
# Written by deployctl; `deployctl down` stops it.
[Unit]
Description=vLLM of deployctl's profile {name}
After=network.target

[Service]
Type=exec
ExecStart={command}
# The supervisor restarts the server; a supervisor that gave up ends with status 1 and stays ended.
Restart=on-abnormal
RestartSec=5
# The supervisor asks the server first, then ends its whole session; systemd ends what is left.
KillMode=mixed
TimeoutStopSec={patience}
LimitMEMLOCK=infinity
LimitNOFILE=1048576
TasksMax=infinity
OOMPolicy=continue

[Install]
WantedBy=multi-user.target
"""


def usable() -> Optional[str]:
    """None where a system unit can be made; else why not."""
    if not os.path.isdir("/run/systemd/system"):
        return "systemd is not this machine's init"
    if os.geteuid() != 0:
        return "not root"
    if shutil.which("systemctl") is None:
        return "there is no systemctl"
    return None


def service_name(root: str, profile: str, unit: str) -> str:
    """The service of a unit. No profile's name has a colon: two units never share a service."""
    return older_name(root, profile if unit == layout.MAIN else "%s:%s" % (profile, unit))


def older_name(root: str, name: str) -> str:
    """A service by the name that people call its unit; another root than the default one is
    distinguished by a digest."""
    if os.path.abspath(root) == DEFAULT_ROOT:
        return "deployctl-%s.service" % name
    return "deployctl-%s-%s.service" % (name, hashlib.sha256(root.encode()).hexdigest()[:8])


def start(
    call: Call, unit: str, name: str, argv: List[str], grace: float, enabled: bool = True
) -> None:
    """Write, enable and start a service for the server that people call `name`; error `systemd`
    with systemctl's own words."""
    text = TEMPLATE.format(
        name=name, command=" ".join(map(_quoted, argv)), patience=int(grace) + 60
    )
    path = os.path.join(UNITS, unit)
    if _content(path) != text:
        write_text(path, text, 0o644)
        # Only a unit that is loaded already is reloaded by force.
        if show(call, unit).get("NeedDaemonReload") == "yes":
            _systemctl(call, "daemon-reload")
    if enabled:
        enable(unit)
    _systemctl(call, "reset-failed", unit, may_fail=True)
    _systemctl(call, "start", unit)


def stop(call: Call, unit: str) -> None:
    """Stop the unit with all of its control group, and do not start it at boot any more."""
    disable(unit)
    _systemctl(call, "stop", unit, may_fail=True)


def disable(unit: str) -> None:
    """Do not start the unit at boot any more, if there is one."""
    link = os.path.join(WANTS, unit)
    if os.path.islink(link):
        os.unlink(link)


def show(call: Call, unit: str) -> Dict[str, str]:
    """The unit as systemd sees it."""
    names = "ActiveState,SubState,MainPID,NRestarts,NeedDaemonReload,UnitFileState"
    text = _systemctl(call, "show", unit, "--property=" + names)
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def enable(unit: str) -> None:
    """What `systemctl enable` does, without the reload that it does besides."""
    os.makedirs(WANTS, exist_ok=True)
    link = os.path.join(WANTS, unit)
    if not os.path.lexists(link):
        os.symlink(os.path.join(UNITS, unit), link)


def _content(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _quoted(word: str) -> str:
    """One word of ExecStart: quoted, with systemd's own specifiers made literal."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return '"%s"' % escaped


def _systemctl(call: Call, *argv: str, may_fail: bool = False) -> str:
    done = subprocess.run(
        ["systemctl", "--no-pager", *argv],
        env=call.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=300,
    )
    if done.returncode != 0 and not may_fail:
        raise AgentError("systemd", "systemctl %s: %s" % (argv[0], done.stderr.strip()))
    return done.stdout
