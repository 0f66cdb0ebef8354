"""Releases on a host: the way to an earlier one, what differs between two, and what may go."""

from __future__ import annotations

import pytest

from deployctl.engine.inspect.compare import compare
from deployctl.engine.inspect.logs import Wanted, log
from deployctl.engine.ledger.garbage import collect
from deployctl.errors import LockHeld, UsageError
from deployctl.report.releases import diff_lines
from tests.hosts.served.host import STALE, ServedHost

OTHER = "serve.env.WHICH=other"
THIRD = "serve.env.WHICH=third"
STARTS_NOT = "serve.env.STAND_IN_FAULT=start"


def test_rollback_serves_the_previous_release_as_it_was_wanted(served: ServedHost) -> None:
    first = served.up().hosts[0].release
    second = served.up(OTHER).hosts[0].release
    back = served.up(playbook="rollback")
    assert (back.outcome, back.exit_code) == ("deployed", 0)
    unit, releases = served.unit(), served.releases()
    assert unit["release"] == first == releases["current"]
    assert releases["previous"] == second
    forth = served.up(OTHER, playbook="rollback", release=str(second)[:6])
    assert forth.hosts[0].release == second == served.unit()["release"]
    assert served.up(OTHER).outcome == "unchanged"


def test_a_rollback_that_fails_keeps_what_serves(served: ServedHost) -> None:
    served.up()
    second = served.up(OTHER).hosts[0].release
    for program in served.root.glob("environments/*/bin/vllm"):
        text = program.read_text("utf-8")
        broken = text.replace("def main() -> int:\n", "def main() -> int:\n    broken()\n")
        # The way back needs the whole program again.
        program.write_text(broken, encoding="utf-8")
    failed = served.up(playbook="rollback")
    assert failed.exit_code == 7
    assert failed.hosts[0].rollback_error is not None, "and that is said"
    assert served.releases()["current"] == second


def test_diff_tells_sources_profile_and_figures(served: ServedHost) -> None:
    served.up()
    served.up(OTHER)
    (host,) = compare(served.profile(), "previous", "current")["hosts"]
    assert {"what": "serve.env.WHICH", "old": None, "new": "other"} in host["config"]
    assert host["packages"] == []
    lengths = [f for f in host["figures"] if f["what"] == "acceptance.mean_acceptance_length"]
    assert lengths == [{"what": "acceptance.mean_acceptance_length", "old": 8.0, "new": 8.0}]
    assert host["made_from"] == []


def test_gc_keeps_what_serves_and_what_it_may_go_back_to(served: ServedHost) -> None:
    oldest = served.up().hosts[0].release
    previous = served.up(OTHER).hosts[0].release
    current = served.up(THIRD).hosts[0].release
    failed = served.up(STALE).hosts[0].release
    unused = served.root / "environments" / "unused"
    (unused / "bin").mkdir(parents=True)
    told = collect(served.profile(), keep=0, dry_run=True)
    assert set(served.releases()["releases"]) == {oldest, previous, current, failed}
    done = collect(served.profile(), keep=0, dry_run=False)
    removed = {(one["kind"], one["name"]) for one in done["hosts"][0]["removed"]}
    assert removed == {(one["kind"], one["name"]) for one in told["hosts"][0]["removed"]}
    assert removed == {
        ("releases", oldest),
        ("releases", failed),
        ("jobs", f"rehearse-stand-{oldest}"),
        ("jobs", f"rehearse-stand-{failed}"),
        ("environments", "unused"),
    }
    assert set(served.releases()["releases"]) == {previous, current}
    assert served.up(THIRD).exit_code == 0
    assert served.up(playbook="rollback").outcome == "deployed"


def test_gc_keeps_what_was_prepared_until_it_was_launched(served: ServedHost) -> None:
    served.up()
    prepared = served.up(OTHER, playbook="prepare").hosts[0].release
    assert collect(served.profile(), keep=2, dry_run=True)["hosts"][0]["removed"] == []
    collect(served.profile(), keep=0, dry_run=False)
    assert prepared in served.releases()["releases"]
    assert served.up(OTHER).hosts[0].release == prepared
    served.up(STALE, playbook="prepare")
    failed = served.up(STALE).hosts[0].release
    removed = collect(served.profile(), keep=0, dry_run=False)["hosts"][0]["removed"]
    names = {one["name"] for one in removed}
    assert names == {failed, f"rehearse-stand-{failed}"}, "it was launched, and failed"


def test_a_failed_release_can_be_looked_into(served: ServedHost) -> None:
    good = served.up().hosts[0].release
    failed = served.up(STALE)
    release = str(failed.hosts[0].release)
    assert served.releases()["current"] == good
    (host,) = compare(served.profile(), "current", release[:8])["hosts"]
    assert (host["old"], host["new"]) == (good, release)
    error = failed.hosts[0].error
    assert error is not None and host["failed"] == {release: error.what}
    figures = {f["what"]: (f["old"], f["new"]) for f in host["figures"]}
    old, new = figures["acceptance.mean_acceptance_length"]
    assert old == 8.0 and new < old
    assert figures["acceptance.verdict"] == ("pass", "fail")
    assert f"  {release} failed: {error.what}" in list(diff_lines({"hosts": [host]})), (
        "and that is said"
    )
    assert served.up(STALE).outcome == "rolled-back", "it is no complete release"
    assert served.up(playbook="rollback", release=release).exit_code == 2


def test_the_log_of_a_failed_release_is_kept(served: ServedHost) -> None:
    served.up()
    failed = str(served.up(STARTS_NOT).hosts[0].release)
    serving = str(served.unit()["release"])

    def text(release: str) -> str:
        return "".join(log(served.profile(), Wanted(1000, release=release)))

    kept = served.root / "profiles/stand/units/server/releases" / failed / "server.log"
    assert text(failed[:8]) == kept.read_text("utf-8") != ""
    assert text(serving) == "".join(log(served.profile(), Wanted(1000)))
    with pytest.raises(UsageError) as caught:
        text("nothing")
    assert failed in str(caught.value.next)


def test_gc_does_nothing_while_a_run_is_at_work(served: ServedHost) -> None:
    served.up()
    with served.start("up", "--set", OTHER, stops_at="ready: started") as run:
        run.told("ready: started")
        with pytest.raises(LockHeld):
            collect(served.profile(), keep=0, dry_run=False)
        assert collect(served.profile(), keep=0, dry_run=True)["hosts"][0]["removed"]
        # What profiles share may be about to be used by another one's run.
        other = served.profile().model_copy(update={"name": "another"})
        with pytest.raises(LockHeld, match=f"the lock of profile {served.profile().name} is held"):
            collect(other, keep=0, dry_run=False)
        run.kill()


def test_after_a_restore_next_fits_what_serves_and_no_rollback_goes_to_what_failed(
    served: ServedHost,
) -> None:
    good = served.up().hosts[0].release
    failed = served.up(skip=frozenset({"drafter"}))
    (host,) = failed.hosts
    assert (failed.exit_code, host.previous) == (10, good)
    bad = str(host.release)
    assert host.error is not None
    assert "the drafter's config.json on the host is not what" in host.error.why
    assert f"deployctl diff current {bad} --profile stand" in host.error.next
    refused = served.up(playbook="rollback", release=bad[:6])
    (host,) = refused.hosts
    assert refused.exit_code == 2 and host.error is not None
    assert f"{bad} failed acceptance; no run rolls back to it" in host.error.what
    assert host.error.next == f"releases to go back to: {good}"
    assert host.previous == good
