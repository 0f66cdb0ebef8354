"""One run at a time for a profile on a host, whoever starts it and however it ends."""

from __future__ import annotations

import json
import threading

from deployctl.config.host import HostSettings
from deployctl.config.loader import load_playbook
from deployctl.engine.connections.connect import connect
from deployctl.engine.ledger.lock import take
from deployctl.engine.ledger.record import RunRecord
from deployctl.engine.run.coordinator import run
from deployctl.engine.run.options import Options
from deployctl.hosts.session import Limits, Session
from deployctl.hosts.transports import transport
from deployctl.steps import registry
from tests.hosts.lab.sshd import Sshd
from tests.hosts.served.host import ServedHost

RUNS = 20
AFTER_SILENCE = 10.0


def test_of_twenty_at_once_from_two_machines_one_works(served: ServedHost, sshd: Sshd) -> None:
    """Half of them are on the host itself, the others come by SSH."""
    ready = threading.Barrier(RUNS)
    by_ssh = HostSettings(**sshd.host_settings("here"), root=str(served.root))
    profiles = [served.profile(), served.profile().model_copy(update={"hosts": [by_ssh]})]
    up = load_playbook("up", registry.options())
    records: list[RunRecord] = []

    def one(number: int) -> None:
        ready.wait()
        # Half of them wait for their turn, as a person would; the others skip, as cron would.
        options = Options(lock_wait=600.0 if number % 2 else 0.0)
        records.append(run(profiles[number // 2 % 2], up, options))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(RUNS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcomes = sorted(record.outcome for record in records)
    assert outcomes.count("deployed") == 1
    odd = [r for r in records if r.outcome not in ("deployed", "skipped", "unchanged")]
    assert not odd, [
        (r.outcome, r.hosts[0].error, [vars(s) for s in r.hosts[0].steps]) for r in odd
    ]
    assert outcomes.count("unchanged") >= RUNS // 2 - 1, "those that waited found it done"
    assert len(served.ledger("begin")) == len(served.ledger("end")) == 1
    for record in records:
        if record.outcome == "skipped":
            error = record.hosts[0].error
            assert error is not None and "the lock is held by run " in error.why


def test_a_lock_file_left_by_a_reboot_does_not_block(served: ServedHost) -> None:
    home = served.root / "profiles" / "stand"
    home.mkdir(parents=True)
    left = {"run": "20200101T000000Z-000000", "user": "root", "from": "gone", "pid": 1}
    (home / "lock").write_text(json.dumps(left), encoding="utf-8")
    assert served.up().outcome == "deployed"


def test_an_agent_that_hears_nothing_lets_go_of_the_lock(served: ServedHost) -> None:
    host = served.profile().hosts[0]
    silent = Limits(silence=AFTER_SILENCE, ping=600.0, dead=1200.0)
    with Session(transport(host), root=host.root, limits=silent) as cut:
        cut.ask([take("stand", "the one that was cut off")])
        with connect(host) as other:
            (answer,) = other.session.ask([take("stand", "the next", 120.0)])
            assert answer == {"held": True}
