"""What a run tells at its end, about a way back and a way to an earlier release."""

from __future__ import annotations

from deployctl.engine.inspect import status
from deployctl.engine.ledger.garbage import collect
from deployctl.report import document
from deployctl.report.serving import status_lines
from deployctl.report.summary import lines
from tests.hosts.served.host import STALE, ServedHost


def test_the_way_back_stands_last_and_names_what_serves(served: ServedHost) -> None:
    good = served.up().hosts[0].release
    failed = served.up("serve.env.STAND_IN_FAULT=start")
    names = [step.step for step in failed.hosts[0].steps]
    assert names[-2:] == ["restore-launch", "restore-ready"]
    assert names.index("smoke") < names.index("restore-launch")
    told = list(lines(document.report(failed)))
    assert f"  serves again: release {good}, proven ready" in told
    served.up("serve.env.WHICH=other")
    *_, last = lines(document.report(served.up(playbook="rollback")))
    assert "deployed: the earlier release serves" in last


def told_by_status(served: ServedHost) -> list[str]:
    return list(status_lines(status.survey(served.profile())))


def test_a_first_release_that_fails_its_gate_serves_on_and_that_is_said(
    served: ServedHost,
) -> None:
    failed = served.up("serve.env.STAND_IN_FAULT=smoke")
    (host,) = failed.hosts
    assert failed.exit_code == 8
    told = list(lines(document.report(failed)))
    assert f"  release {host.release} is still serving, it has not passed" in told
    shown = told_by_status(served)
    assert shown[0] == "here  it answers, and the serving release has NOT passed its gates"
    assert "  drafter   config.json of a release that has not passed" in shown
    models = sorted((served.root / "models").iterdir())
    collect(served.profile(), keep=0, dry_run=False)
    assert sorted((served.root / "models").iterdir()) == models, "its server stands on them"
    with served.start("status") as asked:
        asked.output()
    assert asked.returncode == 7


def test_a_failed_release_that_is_kept_is_told_from_the_good_one(served: ServedHost) -> None:
    good = served.up().hosts[0].release
    failed = served.up(STALE, keep_failed=True)
    (host,) = failed.hosts
    assert failed.exit_code == 9 and host.release != good
    assert f"  release {host.release} is still serving, it has not passed" in list(
        lines(document.report(failed))
    )
    (shown,) = status.survey(served.profile())["hosts"]
    assert (shown["serving"], shown["current"]) == (host.release, good)
    assert shown["unproven_release"] is True and shown["drift"] is None
    served.up(playbook="down")
    (shown,) = status.survey(served.profile())["hosts"]
    assert (shown["serving"], shown["unproven_release"]) == (None, False)


def test_what_failed_before_is_not_said_to_serve(served: ServedHost) -> None:
    served.up()
    served.up(STALE)
    asked = served.up(STALE, only_if_changed=True)
    assert asked.outcome == "passed", "the process that came back was asked"
    declined = served.up(STALE, only_if_changed=True)
    for record in (asked, declined):
        assert "not retried" in "\n".join(lines(document.report(record)))
    *_, last = lines(document.report(declined))
    assert "unchanged: the wanted release failed before" in last


def test_damage_and_a_run_at_work_are_in_the_status(served: ServedHost) -> None:
    served.up()
    (environment,) = (served.root / "environments").iterdir()
    served.ask("releases.break_seal", key=environment.name, why=["x.py is missing"])
    with served.start("up", "--set", "serve.env.WHICH=other", stops_at="started") as run:
        run.told("started")
        shown = "\n".join(told_by_status(served))
        run.kill()
        run.communicate()
    assert "  build     its environment is DAMAGED: x.py is missing" in shown
    assert "running, or it died" in shown


def test_a_release_keeps_its_packages_when_it_is_launched_again(served: ServedHost) -> None:
    served.up()
    (before,) = served.releases()["releases"].values()
    served.up(playbook="down")
    with served.start("launch") as run:
        run.output()
    (after,) = served.releases()["releases"].values()
    assert before["packages"] and after["packages"] == before["packages"]
