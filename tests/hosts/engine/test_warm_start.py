"""`up` with a server that imports and waits beside what serves, and what becomes of it."""

from __future__ import annotations

import signal

from deployctl.engine.ledger.record import RunRecord, StepRecord
from deployctl.engine.run.events import Event, StepNote
from tests.hosts.lab.processes import is_alive
from tests.hosts.served.host import STALE, ServedHost
from tests.hosts.test_units import until

WARM = "switch.warm=true"
OTHER = "serve.args.max-num-seqs=4"
WAITS = "it waits, pid "


def step(record: RunRecord, name: str) -> StepRecord:
    return next(s for s in record.hosts[0].steps if s.step == name)


def test_the_next_release_is_warmed_beside_what_serves(served: ServedHost) -> None:
    first = served.up(WARM)
    assert first.exit_code == 0, first.hosts[0].error
    # Nothing served: nothing could be done beside it.
    assert "warm start" not in (step(first, "launch").evidence["plain"] or "")
    before = served.unit()
    seen: list[tuple[int, int]] = []

    def listen(event: Event) -> None:
        if isinstance(event, StepNote) and event.text.startswith(WAITS):
            pid = int(event.text.removeprefix(WAITS).partition(":")[0])
            seen.append((pid, served.unit()["pid"]))

    second = served.up(WARM, OTHER, listen=listen)
    assert second.exit_code == 0, second.hosts[0].error
    launch = step(second, "launch").evidence
    ((waited, serving),) = seen
    assert serving == before["pid"]
    assert launch["pid"] == waited == served.unit()["pid"]
    assert launch["warm"]["method"] == "spawn" and launch["plain"] is None
    ahead = launch["read_ahead"]
    assert ahead["read"] == ahead["bytes"] > 0 and ahead["skipped"] is None
    assert served.unit()["proven"] == {"pid": waited, "start": launch["start"]}
    assert served.up(WARM, OTHER).outcome == "unchanged"

    third = served.up("switch.warm=false")
    assert step(third, "launch").evidence["plain"] == "switch.warm is false"
    assert step(third, "launch").evidence["warm"] is None


def test_a_failed_gate_goes_back_warm_and_leaves_nothing_that_waits(served: ServedHost) -> None:
    good = served.up(WARM).hosts[0].release
    failed = served.up(WARM, STALE)
    assert failed.exit_code == 10, failed.hosts[0].error
    assert step(failed, "launch").evidence["warm"]
    assert failed.hosts[0].restored
    unit = served.unit()
    assert (unit["state"], unit["release"], unit["waits"]) == ("running", good, None)
    # What failed answered all the same until the release of before had imported vLLM.
    assert unit["warm"] and step(failed, "restore-launch").evidence["pid"] == unit["pid"]


def test_what_never_answered_makes_way_at_once(served: ServedHost) -> None:
    served.up(WARM)
    failed = served.up(WARM, OTHER, "serve.env.STAND_IN_FAULT=start")
    assert failed.exit_code == 10 and failed.hosts[0].restored
    assert served.unit()["warm"] is None and served.unit()["waits"] is None


def test_a_run_that_is_killed_leaves_what_serves_and_the_next_one_switches(
    served: ServedHost,
) -> None:
    served.up(WARM)
    before = served.unit()
    with served.start("up", "--set", WARM, "--set", OTHER, stops_at=WAITS) as running:
        line = running.told(WAITS)
        waited = int(line.partition(WAITS)[2].partition(":")[0])
        running.kill()
    after = served.unit()
    assert (after["pid"], after["state"]) == (before["pid"], "running")
    assert after["waits"]["pid"] == waited
    record = served.up(WARM, OTHER)
    assert record.exit_code == 0, record.hosts[0].error
    launched = step(record, "launch").evidence
    assert launched["warm"] and launched["pid"] != waited
    assert not is_alive(waited)


def test_a_run_that_is_killed_after_the_stop_leaves_a_process_that_the_next_one_uses(
    served: ServedHost,
) -> None:
    served.up(WARM)
    stops_at = "launch: started"
    with served.start("up", "--set", WARM, "--set", OTHER, stops_at=stops_at) as running:
        waited = int(running.told(WAITS).partition(WAITS)[2].partition(":")[0])
        running.told(stops_at)
        running.kill()
    stopped = served.unit()
    assert stopped["state"] == "stopped" and stopped["waits"]["pid"] == waited
    record = served.up(WARM, OTHER)
    assert record.exit_code == 0, record.hosts[0].error
    launched = step(record, "launch").evidence
    assert launched["pid"] == waited and launched["warm"] and launched["plain"] is None


def test_an_interrupt_while_it_waits_ends_it_or_bounds_it(served: ServedHost) -> None:
    served.up(WARM)
    before = served.unit()
    with served.start("up", "--set", WARM, "--set", OTHER, stops_at=WAITS) as running:
        running.told(WAITS)
        running.go_on(signal.SIGINT)
        running.output()
    assert running.returncode in (130, 10)
    unit = served.unit()
    assert unit["state"] == "running" and unit["release"] == before["release"]
    served.ask("units.stop", profile="stand", unit="server", grace=1)
    until("nothing waits", lambda: served.unit()["waits"] is None)
