"""`deployctl watch`: what serves, read again and again; a host that is lost comes back."""

from __future__ import annotations

import json
import os
import signal

from deployctl.engine.inspect.watch import Watch
from deployctl.report import watched
from tests.hosts.lab.processes import children, command
from tests.hosts.served.host import LIMIT, ServedHost
from tests.hosts.test_units import until


def test_what_serves_is_watched_beside_a_host_that_is_gone(served: ServedHost) -> None:
    release = served.up().hosts[0].release
    text = served.profile_file.read_text("utf-8")
    gone = "hosts: [{name: gone, ssh: {address: 127.0.0.1, port: 1}}, "
    served.profile_file.write_text(text.replace("hosts: [", gone), encoding="utf-8")
    with served.start("watch", "--line", "--count", "2", "--interval", "200ms") as watch:
        lines = watch.output().splitlines()
    assert watch.returncode == 0 and len(lines) == 2
    for line in lines:
        assert line.startswith("stand  1/2 hosts  0.0 tok/s  0 running 0 waiting")
        assert line.endswith("unreachable: gone")
    with served.start("watch", "--interval", "200ms") as watch:
        assert watch.stdout is not None
        head, first, here, why = (watch.stdout.readline().split() for _ in range(4))
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=LIMIT)
    assert watch.returncode == 130
    assert head[:3] == ["HOST", "UNIT", "STATE"] and first == ["gone", "unreachable"]
    assert here[:4] == ["here", "server", "running", release] and here[-1] == "pass"
    assert why[0] == "gone:"
    served.profile_file.write_text(text, encoding="utf-8")
    assert served.ledger()[-1]["playbook"] == "up", "watching leaves no entry"
    with served.start("status", "--json") as status:
        (shown,) = json.loads(status.output())["hosts"]
    unit = shown["units"]["server"]
    assert (unit["release"], unit["requests"]) == (release, {"running": 0, "waiting": 0})
    assert shown["gpus"] == []


def test_a_host_that_is_lost_is_unreachable_until_it_is_connected_again(
    served: ServedHost,
) -> None:
    def state() -> str:
        (row,) = list(watched.table(watch.document()))[1:2]
        return row.split(maxsplit=1)[1]

    def agents() -> list[int]:
        return [pid for pid in children(os.getpid()) if "import sys,os,json" in command(pid)]

    served.leave()
    with Watch(served.profile(), 0.05) as watch:
        until("it is read", lambda: state() == "nothing was started")
        (agent,) = agents()
        os.kill(agent, signal.SIGSTOP)
        until("it is late", lambda: "no answer for" in state())
        os.kill(agent, signal.SIGKILL)
        until("it is read again", lambda: state() == "nothing was started")
        assert agents() != [agent]
    until("nothing is left", lambda: not agents())
