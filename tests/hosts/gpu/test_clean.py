"""clean, whole: real processes in real containers of a real node; who is stopped and who is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deployctl.config.playbook import Playbook
from deployctl.config.profile import Profile
from deployctl.engine.ledger.record import HostRecord
from deployctl.engine.run.coordinator import run, survey
from deployctl.engine.run.options import Options
from deployctl.hosts.session import Session
from deployctl.steps.interface import Plan
from tests.hosts.gpu.machine import SERVER, TRACKER, TRAINING, UUIDS, GpuMachine, Place
from tests.hosts.lab.namespaces import wait_for

pytestmark = pytest.mark.lab

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\n"
CLEAN = Playbook.model_validate({"name": "clean", "steps": ["clean"]})


def profile(gpus: GpuMachine, container: bool = True, **clean: Any) -> Profile:
    return Profile.model_validate(
        {
            "name": "prod",
            "hosts": [gpus.host(container).model_dump()],
            "model": {"path": "/models/target", "served_name": "m"},
            "build": {"source": {"release": "0.33.0"}, "target": "cuda"},
            "serve": {"port": 30000, "gpus": [0]},
            "clean": {"grace": "60s", "settle": "60s", **clean},
        }
    )


def clean(wanted: Profile, **options: Any) -> HostRecord:
    chosen = Options(steps={"clean": {"stop_unit": True, **options}})
    return run(wanted, CLEAN, chosen).hosts[0]


def plan(wanted: Profile, **options: Any) -> Plan:
    chosen = Options(steps={"clean": {"stop_unit": True, **options}})
    (host,) = survey(wanted, CLEAN, chosen)
    found: Plan = host["plan"].steps[0].plan
    return found


def holders(agent: Session) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = agent.call("gpu.holders", patterns=["VLLM"])["processes"]
    return found


def stopped(evidence: dict[str, Any]) -> dict[int, str]:
    return {row["pid"]: row["fate"] for row in evidence["stopped"]}


def test_five_holders_over_a_node_and_two_containers(gpus: GpuMachine) -> None:
    """Exactly ours end, one of which is deaf to SIGTERM; both ways of passthrough, one result."""
    ours = [
        gpus.hold(gpus.ours, "VLLM::EngineCore", memory=300),
        gpus.hold(gpus.ours, "VLLM::Worker_TP0", deaf=True, memory=300),
    ]
    others: list[tuple[Place, int]] = [
        (gpus.ours, gpus.hold(gpus.ours, *TRAINING, memory=100)),
        (gpus.other, gpus.hold(gpus.other, "VLLM::EngineCore", memory=100)),
        (gpus.node, gpus.hold(gpus.node, "Xorg", memory=100)),
    ]
    outer = [gpus.on_node(gpus.ours, pid) for pid in ours]
    record = clean(profile(gpus, grace="10s"))
    assert record.error is None
    (step,) = record.steps
    assert stopped(step.evidence) == {outer[0]: "ended", outer[1]: "killed"}
    assert not any(gpus.alive(gpus.ours, pid) for pid in ours)
    assert all(gpus.alive(place, pid) for place, pid in others)
    assert step.evidence["memory_before"] == {"0": 900}
    assert step.evidence["memory_after"] == {"0": 300}
    verdicts = [holder["verdict"] for holder in step.evidence["holders"]]
    assert sorted(verdicts) == ["foreign", "foreign", "ours", "ours", "system"]
    assert step.seconds < 10 + 60, "memory that is free is not waited for"


def test_a_plan_names_each_and_touches_none(gpus: GpuMachine) -> None:
    inner = gpus.hold(gpus.ours, "VLLM::EngineCore", memory=300)
    pid = gpus.on_node(gpus.ours, inner)
    made = plan(profile(gpus))
    assert made.status == "change"
    (change,) = made.changes
    assert change.what == f"process {pid}" and "VLLM::EngineCore" in str(change.old)
    assert change.why == "a vLLM process inside the profile's container"
    assert gpus.alive(gpus.ours, inner)


@pytest.mark.parametrize(("scope", "ends"), [("ours", "o"), ("container", "oc"), ("gpu", "ocx")])
def test_a_scope_widens_what_is_stopped(gpus: GpuMachine, scope: str, ends: str) -> None:
    placed: dict[str, tuple[Place, int]] = {
        "o": (gpus.ours, gpus.hold(gpus.ours, "VLLM::EngineCore", memory=10)),
        "c": (gpus.ours, gpus.hold(gpus.ours, *TRAINING, memory=10)),
        "x": (gpus.other, gpus.hold(gpus.other, "job", memory=10)),
        "s": (gpus.node, gpus.hold(gpus.node, "nv-hostengine", memory=10)),
    }
    assert clean(profile(gpus), scope=scope).error is None
    alive = {key for key, (place, pid) in placed.items() if gpus.alive(place, pid)}
    assert alive == set("ocxs") - set(ends)


def test_the_other_gpu_is_never_touched(gpus: GpuMachine) -> None:
    pid = gpus.hold(gpus.node, "job", devices=["/dev/nvidia1"])
    assert clean(profile(gpus), scope="gpu").error is None
    assert gpus.alive(gpus.node, pid)


def test_children_go_with_their_server(gpus: GpuMachine) -> None:
    tracker = {"argv": TRACKER, "devices": []}
    engine = {"argv": ["VLLM::EngineCore"], "devices": ["/dev/nvidia0"], "memory": 10}
    pid = gpus.hold(gpus.ours, *SERVER, devices=[], children=[tracker, engine])
    record = clean(profile(gpus))
    assert record.error is None and len(record.steps[0].evidence["stopped"]) == 3
    # Dead they are; the container's first process has to bury them yet.
    session = ("pgrep", "-s", str(pid))
    wait_for("their end", lambda: gpus.ours.run(*session, check=False).stdout == "")


def test_what_comes_back_is_stopped_again_and_then_given_up_with_its_parent(
    gpus: GpuMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployctl.steps.clean.RETURNS_WITHIN", 60.0)
    engine = {"argv": ["VLLM::EngineCore"], "devices": ["/dev/nvidia0"], "memory": 10}
    inner = gpus.hold(gpus.ours, "loop", devices=[], children=[engine], again=True)
    record = clean(profile(gpus))
    assert record.error is not None
    assert "come back after being stopped 3 times" in record.error.what
    assert f"started by PID {gpus.on_node(gpus.ours, inner)} 'loop'" in record.error.why
    assert len(record.steps[0].evidence["stopped"]) == 3
    assert gpus.alive(gpus.ours, inner), "the loop itself is not ours to stop"


def test_what_others_hold_blocks_before_anything_is_touched(gpus: GpuMachine) -> None:
    mine = gpus.hold(gpus.ours, "VLLM::EngineCore", memory=10)
    pid = gpus.hold(gpus.node, "job", memory=5000)
    made = plan(profile(gpus))
    assert made.status == "blocked"
    assert f"GPU 0: 5000 MiB stay held by PID {pid} 'job' (foreign" in made.reason
    assert clean(profile(gpus)).error is not None
    assert gpus.alive(gpus.ours, mine)
    assert plan(profile(gpus, free_below_mib=6000)).status == "change"


def test_memory_that_nobody_holds_is_told_as_such(gpus: GpuMachine) -> None:
    gpus.set_gpus({"extra": 2000})
    record = clean(profile(gpus, settle="0.3s"))
    assert record.error is not None
    assert record.error.what.endswith("the GPUs are not free")
    assert "2000 MiB held by no visible process: the driver keeps it" in record.error.why


def test_memory_that_falls_is_waited_for(gpus: GpuMachine) -> None:
    gpus.set_gpus({"extra": 2000})
    gpus.node.run(
        "sh",
        "-c",
        '(sleep 0.5; sed -i \'s/"extra": 2000/"extra": 1500/\' /stand_in/gpus.json; sleep 0.5;'
        ' sed -i \'s/"extra": 1500/"extra": 0/\' /stand_in/gpus.json) >/dev/null 2>&1 &',
    )
    record = clean(profile(gpus))
    assert record.error is None
    course = [entry["memory"][UUIDS[0]] for entry in record.steps[0].evidence["settled"]]
    assert course[-1] == 0 and course == sorted(course, reverse=True)


def test_a_machine_of_its_own_needs_more_than_a_title(gpus: GpuMachine) -> None:
    pid = gpus.hold(gpus.node, "VLLM::EngineCore", memory=10)
    assert clean(profile(gpus, container=False)).error is None
    assert gpus.alive(gpus.node, pid)


def test_a_process_that_survives_sigkill_ends_the_run_with_where_it_is(
    gpus: GpuMachine, frozen_disk: str
) -> None:
    log = "/var/lib/deployctl/profiles/prod/units/server/server/server.log"
    gpus.node.run("mkdir", "-p", log.rpartition("/")[0])
    pid = gpus.hold(gpus.node, "VLLM::EngineCore", files=[log], block=frozen_disk)
    gpus.node.run("kill", "-USR1", str(pid))
    wait_for("it to be stuck", lambda: "D" in gpus.node.run("ps", "-ostate=", str(pid)).stdout)
    record = clean(profile(gpus, container=False, grace="0.5s"))
    assert record.error is not None
    assert record.error.what == f"h1: clean: PID {pid} survives SIGKILL: reboot needed"
    assert record.error.why.startswith(f"PID {pid}: D in ")
    assert record.steps[0].evidence["stopped"][0]["fate"] == "left"


def test_what_lies_below_our_root_is_ours_on_any_machine(gpus: GpuMachine) -> None:
    log = "/var/lib/deployctl/profiles/prod/units/server/server/server.log"
    gpus.node.run("mkdir", "-p", log.rpartition("/")[0])
    pid = gpus.hold(gpus.node, "VLLM::EngineCore", memory=10, files=[log])
    without = gpus.hold(gpus.node, "VLLM::Worker", devices=[], memory=0, files=[log])
    record = clean(profile(gpus, container=False))
    assert set(stopped(record.steps[0].evidence)) == {pid, without}


def test_an_nvidia_smi_that_gives_no_answer_stops_nothing(gpus: GpuMachine) -> None:
    inner = gpus.hold(gpus.ours, "VLLM::EngineCore")
    gpus.set_gpus(says={"status": 18, "stdout": MISMATCH})
    made = plan(profile(gpus))
    assert made.status == "unknown" and MISMATCH.strip() in made.reason
    assert gpus.alive(gpus.ours, inner)


def test_a_frozen_container_blocks_with_the_way_out(gpus: GpuMachine) -> None:
    gpus.hold(gpus.other, "VLLM::EngineCore")
    gpus.other.freeze()
    try:
        made = plan(profile(gpus), scope="gpu")
    finally:
        gpus.other.thaw()
    assert made.status == "blocked"
    assert "frozen and takes no signal: thaw its container first" in made.reason


# -- reset ----------------------------------------------------------------------------------------


def test_reset_only_without_any_client(gpus: GpuMachine) -> None:
    gpus.set_gpus({"extra": 2000})
    pid = gpus.hold(gpus.node, "nv-hostengine", memory=1)
    made = plan(profile(gpus), reset=True)
    assert made.status == "blocked"
    assert f"GPU reset refused: in use by PID {pid}" in made.reason


def test_reset_frees_what_nobody_holds(gpus: GpuMachine) -> None:
    gpus.set_gpus({"extra": 2000})
    inner = gpus.hold(gpus.ours, "VLLM::EngineCore", memory=10)
    record = clean(profile(gpus), reset=True)
    assert record.error is None
    assert record.steps[0].evidence["reset"]["reset"] == [0]
    assert record.steps[0].evidence["memory_after"] == {"0": 0}
    assert not gpus.alive(gpus.ours, inner)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (({"mig": "Enabled"}, {}), "GPU 0 is divided by MIG"),
        (({"mig": "[Unknown Error]"}, {}), "of unknown MIG mode"),
        (({}, {"links": "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n"}), "NVLink to [1]"),
        (({}, {"links": "odd"}), "NVLink peers are not known"),
    ],
)
def test_reset_considers_mig_and_nvlink(gpus: GpuMachine, state: Any, reason: str) -> None:
    change, more = state
    gpus.set_gpus(change, **more)
    made = plan(profile(gpus), reset=True)
    assert made.status == "blocked" and reason in made.reason


# -- our unit -------------------------------------------------------------------------------------


def test_our_unit_in_the_container_goes_first_and_then_its_orphans(gpus: GpuMachine) -> None:
    """The supervisor's own stop ends the unit; what escaped from its session is found after."""
    spec = {
        "argv": list(SERVER),
        "devices": [],
        "children": [{"argv": ["VLLM::EngineCore"], "devices": ["/dev/nvidia0"], "memory": 700}],
    }
    log = "/var/lib/deployctl/profiles/prod/units/server/server/server.log"
    with gpus.agent("ours") as agent:
        unit = agent.call(
            "units.start",
            profile="prod",
            unit="server",
            argv=["python3", "/stand_in/holder_stand_in.py", "be", json.dumps(spec)],
            release="r1",
        )
        assert unit["state"] == "running"
        wait_for(
            "the engine",
            lambda: len(agent.call("units.state", profile="prod", unit="server")["members"]) == 2,
        )
        # The second one may not be what it will be yet.
        wait_for("its GPU", lambda: any(held["devices"] for held in holders(agent)))
    escaped = gpus.hold(gpus.ours, "VLLM::Worker_TP0", files=[log], memory=200)
    made = plan(profile(gpus))
    assert [change.what for change in made.changes] == [
        "unit prod",
        f"process {gpus.on_node(gpus.ours, escaped)}",
    ]
    record = clean(profile(gpus))
    assert record.error is None
    evidence = record.steps[0].evidence
    assert evidence["memory_before"] == {"0": 900} and evidence["memory_after"] == {"0": 0}
    assert [row["why"] for row in evidence["stopped"][:2]] == ["the unit", "the unit"]
    assert not gpus.alive(gpus.ours, escaped)
    with gpus.agent("ours") as agent:
        assert agent.call("units.state", profile="prod", unit="server")["state"] == "stopped"


# -- a host that cannot be asked ------------------------------------------------------------------


def test_a_container_that_is_stopped(gpus: GpuMachine) -> None:
    foreign = gpus.hold(gpus.other, "job")
    gpus.ours.stop()
    try:
        record = clean(profile(gpus), scope="gpu")
        assert gpus.alive(gpus.other, foreign)
    finally:
        gpus.ours.start()
        gpus.ours.run("mount", "--bind", "/stand_in/devices", "/proc/devices")
    assert record.error is not None and record.error.exit_code == 4
    assert "not running" in f"{record.error}"


def test_a_container_that_does_not_exist(gpus: GpuMachine) -> None:
    wanted = profile(gpus)
    host = wanted.hosts[0]
    assert host.container is not None
    container = host.container.model_copy(update={"id": "999"})
    missing = wanted.model_copy(
        update={"hosts": [host.model_copy(update={"container": container})]}
    )
    record = clean(missing)
    assert record.error is not None and record.error.exit_code == 4
    assert "does not exist" in f"{record.error}"


def test_a_node_without_pct(gpus: GpuMachine) -> None:
    gpus.node.run("mv", "/usr/sbin/pct", "/usr/sbin/not-there")
    try:
        record = clean(profile(gpus))
    finally:
        gpus.node.run("mv", "/usr/sbin/not-there", "/usr/sbin/pct")
    assert record.error is not None and record.error.exit_code == 4
    assert "pct" in f"{record.error}"
