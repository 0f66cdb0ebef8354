"""clean's plan as data: what is kept, stopped, refused, and how its findings are told."""

from __future__ import annotations

from typing import Any

import pytest

from deployctl.agent.wire.gpus import StuckThread
from deployctl.config.profile import Profile
from deployctl.report.holders import lines
from deployctl.steps.clean import CleanStep
from deployctl.steps.gpus import clearing
from deployctl.steps.gpus.gpu_snapshot import GpuSnapshot, snapshot
from deployctl.steps.interface import Answers, Deployment, Plan, Unanswered, Unknown
from tests.unit.whole import whole_answers

UUIDS = ("GPU-a", "GPU-b", "GPU-c")
NODE = {"name": "node", "ssh": {"address": "node"}}
CT = {"name": "ct", "container": {"id": "129"}, "node": NODE}
HERE = {"name": "here", "local": True}
OUTER, INNER = 1, 2


def wanted(host: dict[str, Any] = HERE, **options: Any) -> Deployment:
    profile = Profile.model_validate(
        {
            "name": "prod",
            "hosts": [host],
            "model": {"path": "/m", "served_name": "m"},
            "build": {"source": {"release": "0.33.0"}, "target": "cuda"},
            "serve": {"port": 8123, "gpus": [2] if host is HERE else [0]},
        }
    )
    return Deployment(profile, profile.hosts[0], {"clean": {"stop_unit": True, **options}})


def process(pid: int, **facts: Any) -> dict[str, Any]:
    return {
        "pid": pid,
        "start": pid * 10,
        "comm": "x",
        "command": ["x"],
        "state": "S",
        "parent": 1,
        "group": pid,
        "session": pid,
        "user": "root",
        "zombie": False,
        "frozen": False,
        "namespaces": [OUTER],
        "inner_pids": [pid],
        "container": None,
        "service": None,
        "devices": [],
        "mapped": [],
        "marks": [],
        "unreadable": [],
        **facts,
    }


def look(*processes: dict[str, Any], **facts: Any) -> dict[str, Any]:
    return {
        "processes": list(processes),
        "unreadable": [],
        "unreadable_count": 0,
        "hidden": None,
        "contained": None,
        "namespace": OUTER,
        "namespaces": [OUTER, INNER],
        "own": [],
        "devices": {"nvidia": 195},
        **facts,
    }


def gpus(*apps: tuple[int, int, int | None], **facts: Any) -> dict[str, Any]:
    """`apps` are (pid, index of the GPU, MiB)."""
    return {
        "present": True,
        "reason": None,
        "unknown": None,
        "apps_unknown": None,
        "gpus": [
            {"index": i, "uuid": uuid, "name": "H200", "minor": i, "mig": False, "memory_used": 0}
            for i, uuid in enumerate(UUIDS)
        ],
        "apps": [
            {"pid": pid, "uuid": UUIDS[index], "memory": memory, "name": None}
            for pid, index, memory in apps
        ],
        **facts,
    }


ABSENT = {
    "present": False,
    "reason": "no driver",
    "gpus": [],
    "unknown": None,
    "apps": [],
    "apps_unknown": None,
}
STOPPED: dict[str, Any] = {"state": "absent", "members": [], "release": None, "pid": None}
RUNNING = {"state": "running", "members": [{"pid": 5, "start": 50}], "release": "r1", "pid": 5}


def answers(**changes: Any) -> Answers:
    values: dict[str, Any] = {
        "unit": STOPPED,
        "releases": {"releases": {}, "environments": {}, "broken": {}, "elsewhere": []},
        "holders": look(),
        "gpus": gpus(),
        "port": {"listening": False, "holders": []},
    }
    values.update({key.replace("_", "."): value for key, value in changes.items()})
    return Answers(whole_answers(values))


def plan(deployment: Deployment, **changes: Any) -> Plan:
    return CleanStep().plan(deployment, answers(**changes))


def seen(deployment: Deployment, **changes: Any) -> GpuSnapshot:
    return snapshot(deployment, answers(**changes))


def test_the_port_and_who_concerns_the_profile_are_told() -> None:
    words = ["vllm", *("--a-long-option" for _ in range(30))]
    holding = process(8, comm="vllm", command=words, devices=["nvidia2"])
    server = [process(7, comm="VLLM::EngineCor", command=["VLLM::EngineCore"]), holding]
    holder = {"pid": 9, "comm": "nc", "command": "nc -l " + "word " * 60}
    port = {"listening": True, "holders": [holder], "unknown": None}
    evidence = plan(wanted(), holders=look(*server), port=port).evidence
    assert [h["command"] for h in evidence["port"]["holders"]] == [holder["command"]]
    assert evidence["concerned"] == [8]
    shown = list(lines("here", evidence))
    (told,) = [line for line in shown if "port 8123: held by 9  nc -l word" in line]
    assert told.endswith(" word …")
    (told,) = [line for line in shown if "--a-long-option" in line]
    assert told.endswith(" --a-long-option …")
    assert shown[-1] == "  1 other process of vLLM or on other GPUs"
    free = plan(wanted()).evidence
    assert "  port 8123: free" in lines("here", free)
    unknown = plan(wanted(), port=Unknown("time", "no answer")).evidence
    assert "  port 8123: not known: no answer" in lines("here", unknown)


def test_nothing_to_stop_is_still_measured() -> None:
    made = plan(wanted())
    assert made.status == "check"
    assert made.evidence["memory_before"] == {"2": 0}


def test_the_unit_is_one_change_and_its_processes_are_not_told_twice() -> None:
    unit = process(5, command=["VLLM::EngineCore"], devices=["nvidia2"])
    made = plan(wanted(), unit=RUNNING, holders=look(unit), gpus=gpus((5, 2, 900)))
    assert [(c.what, c.old, c.new) for c in made.changes] == [("unit prod", "r1", "stopped")]


@pytest.mark.parametrize("state", ["failed", "exited", "lost", "stopped"])
def test_what_a_dead_server_left_is_stopped_though_its_release_is_the_wanted_one(
    state: str,
) -> None:
    left = {**RUNNING, "state": state}
    made = plan(wanted(stop_unit=False), unit=left)
    assert [change.what for change in made.changes] == ["unit prod"]


def test_a_shared_box_in_words() -> None:
    """Case 7: ours is stopped, what stays on GPU 2 is named, GPUs 0 and 1 are not looked at."""
    ours = process(2148808, command=["VLLM::EngineCore"], devices=["nvidia2"])
    theirs = process(3180618, command=["./grpc_server_main"], devices=["nvidia2"])
    unit = {**RUNNING, "members": [{"pid": 2148808, "start": 21488080}]}
    apps = gpus((2148808, 2, 13074), (3180618, 2, 740), (76926, 0, 4164))
    made = plan(wanted(), unit=unit, holders=look(ours, theirs), gpus=apps)
    assert made.status == "change"
    after = seen(wanted(), holders=look(theirs), gpus=gpus((3180618, 2, 740)))
    assert clearing.held_by(wanted(), after, "GPU-c", 740) == (
        "740 MiB held by PID 3180618 './grpc_server_main' (foreign, GPU 2, 740 MiB)"
    )
    assert after.memory() == {"2": 0}


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({}, "held by no visible process: the driver keeps it, see deployctl clean --reset"),
        ({"contained": "lxc"}, "held by no process visible here: look on the node"),
        ({"hidden": "hidepid"}, "held by a process that is not visible: hidepid"),
        (
            {
                "unreadable_count": 7,
                "unreadable": [{"pid": 9, "comm": "x", "unreadable": ["fd"]}] * 7,
            },
            "9 x (fd), 9 x (fd), 9 x (fd), 9 x (fd), 9 x (fd) and 2 more",
        ),
    ],
)
def test_memory_of_nobody(facts: dict[str, Any], says: str) -> None:
    now = seen(wanted(), holders=look(**facts))
    assert says in clearing.held_by(wanted(), now, "GPU-c", 600)
    assert clearing.held_by(wanted(), now, "GPU-c", None).startswith("an unknown amount of memory")


def test_a_gpu_that_is_divided_belongs_to_others_too() -> None:
    theirs = process(9, command=["job"], devices=["nvidia2"])
    state = gpus((9, 2, 9000))
    state["gpus"][2]["mig"] = True
    assert plan(wanted(), holders=look(theirs), gpus=state).status == "check"
    made = plan(wanted(scope="gpu"), holders=look(theirs), gpus=state)
    assert made.status == "blocked" and "other MIG instances" in made.reason


def test_a_process_that_only_nvidia_smi_knows_is_unknown() -> None:
    now = seen(wanted(), gpus=gpus((4711, 2, 900)))
    (holder,) = now.holders()
    assert (holder.process.pid, holder.word) == (4711, "unknown")
    assert holder.why == "not readable: everything: only nvidia-smi knows it"
    assert now.selection.stop == ()


def test_without_a_driver_nobody_holds_anything_and_nothing_is_unseen() -> None:
    bare = look(unreadable_count=300, unreadable=[], devices={})
    now = seen(wanted(), holders=bare, gpus=ABSENT)
    assert now.blind == () and now.gpus == ()
    assert plan(wanted(), holders=bare, gpus=ABSENT).evidence["gpu"] == "absent: no driver"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gpus": Unknown("time", "nvidia-smi hangs")}, "nvidia-smi hangs"),
        ({"gpus": gpus(unknown="nvidia-smi hangs")}, "nvidia-smi hangs"),
        ({"holders": Unknown("time", "no answer")}, "no answer"),
    ],
)
def test_what_is_not_known_stops_nobody(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unanswered, match=reason):
        plan(wanted(), **changes)


# -- a container behind its node ------------------------------------------------------------------


def behind(inside: dict[str, Any], outside: dict[str, Any], state: dict[str, Any]) -> GpuSnapshot:
    own = gpus()
    own["gpus"] = [own["gpus"][1]]
    own["gpus"][0]["index"] = 0
    return seen(
        wanted(CT),
        holders=outside,
        holders_inside=inside,
        gpus=state,
        gpus_inside=own,
    )


def inner(pid: int, **facts: Any) -> dict[str, Any]:
    return process(
        pid + 1000, start=pid * 10, namespaces=[INNER, OUTER], inner_pids=[pid + 1000, pid], **facts
    )


def test_the_containers_gpu_0_is_the_nodes_gpu_1() -> None:
    now = behind(look(namespace=INNER), look(), gpus())
    assert [gpu["index"] for gpu in now.gpus] == [1]
    assert now.mine.gpus == {"GPU-b"} and now.mine.container


def test_the_three_views_are_joined() -> None:
    """The node sees what is held, the container's agent whose it is, nvidia-smi how much."""
    marks = [{"kind": "profiles", "name": "prod", "how": "file"}]
    inside = look(process(5, marks=marks), namespace=INNER)
    outside = look(inner(5, devices=["nvidia1"], marks=[{**marks[0], "name": "other"}]))
    now = behind(inside, outside, gpus((1005, 1, 900)))
    (holder,) = now.holders()
    assert (holder.process.pid, holder.word, holder.process.memory) == (1005, "ours", 900)
    assert holder.why == "it uses @/profiles/prod (file)"


def test_paths_of_the_node_prove_nothing_about_the_container() -> None:
    marks = [{"kind": "profiles", "name": "prod", "how": "file"}]
    outside = look(process(7, devices=["nvidia1"], marks=marks))
    now = behind(look(namespace=INNER), outside, gpus((7, 1, 900)))
    assert [v.word for v in now.holders()] == ["foreign"]


def test_a_reused_pid_inside_is_not_the_same_process() -> None:
    marks = [{"kind": "profiles", "name": "prod", "how": "file"}]
    inside = look(process(5, start=49, marks=marks), namespace=INNER)
    now = behind(inside, look(inner(5, devices=["nvidia1"])), gpus((1005, 1, 900)))
    assert [v.word for v in now.holders()] == ["foreign"]


def test_a_node_that_does_not_see_the_container() -> None:
    with pytest.raises(Unanswered, match="the node sees no process of ct: it does not run there"):
        behind(look(namespace=99), look(), gpus())


def test_a_gpu_that_the_node_does_not_know() -> None:
    state = gpus()
    del state["gpus"][1]
    with pytest.raises(Unanswered, match="the node does not know the container's GPU GPU-b"):
        behind(look(namespace=INNER), look(), state)


def test_who_may_start_a_stopped_process_anew() -> None:
    loop = process(3, command=["bash", "-c", "while :; do vllm serve /m; done"])
    ours = {"command": ["VLLM::EngineCore"], "devices": ["nvidia2"]}
    unit = {**RUNNING, "members": [{"pid": pid, "start": pid * 10} for pid in (5, 6, 7, 8)]}
    processes = [
        loop,
        process(5, parent=3, **ours),
        process(6, parent=5, **ours),
        process(7, parent=1, service="vllm.service", **ours),
        process(8, parent=40, **ours),
        process(40, command=["/sbin/init"], namespaces=[INNER, OUTER], inner_pids=[40, 1]),
    ]
    now = seen(wanted(), unit=unit, holders=look(*processes))
    assert [v.process.pid for v in now.selection.stop] == [5, 6, 7, 8]
    assert clearing.starters(now.selection.stop, now) == [
        "PID 3 'bash -c while :; do vllm serve /m; done'",
        "service vllm.service",
    ]


def test_where_a_process_is_stuck() -> None:
    thread: StuckThread = {
        "thread": 77637,
        "state": "R",
        "channel": None,
        "stack": ["uvm_spin_loop", "uvm_tracker_wait", "uvm_api_map_external_allocation"],
    }
    assert clearing.where_stuck(77637, [thread]) == (
        "PID 77637: R in uvm_spin_loop < uvm_tracker_wait < uvm_api_map_external_allocation"
    )
    assert clearing.where_stuck(7, []) == "PID 7: location unknown"


# -- GPUs that share the machine's memory, and people who draw ------------------------------------


def shared_memory(used: int | None, *apps: tuple[int, int, int | None], **row: Any) -> Any:
    state = gpus(*apps)
    state["gpus"][2] |= {"unified": True, "memory_used": used, "memory_total": 122595, **row}
    return state


def test_nothing_of_ours_is_stopped_for_memory_that_cannot_be_read() -> None:
    """Found: clean stopped our engine, then failed with "an unknown amount held by nobody"."""
    broken = shared_memory(None, unified=False, unknown={"memory.used": "[Unknown Error]"})
    found = CleanStep().plan(wanted(), answers(unit=RUNNING, gpus=broken))
    assert found.status == "blocked"
    assert "GPU 2: its memory in use cannot be read ([Unknown Error])" in found.reason
    links: dict[str, Any] = {"clean.links": {"peers": {}, "unknown": None}}
    reset = CleanStep().plan(wanted(reset=True), answers(unit=RUNNING, gpus=broken, **links))
    assert "cannot be read" not in reset.reason


def test_unified_memory_is_gated_by_what_its_holders_have_or_left_out() -> None:
    for used, measured in ((0, ["2"]), (None, [])):
        known = answers(gpus=shared_memory(used))
        now = snapshot(wanted(), known)
        assert [str(gpu["index"]) for gpu in clearing.measured(now)] == measured
        assert bool(clearing.left_out(now)) is (used is None)
        assert CleanStep().plan(wanted(), known).status == "check"


def test_who_draws_with_a_gpu_is_never_stopped() -> None:
    desktop = process(900, comm="gnome-shell", command=["gnome-shell"], devices=["nvidia2"])
    trainer = process(901, comm="train", command=["train"], devices=["nvidia2"])
    state = {**gpus((901, 2, 100)), "graphics": [900]}
    now = snapshot(wanted(scope="gpu"), answers(gpus=state, holders=look(desktop, trainer)))
    assert [v.process.pid for v in now.selection.stop] == [901]
    assert [v.process.pid for v in now.selection.spared] == [900]


@pytest.mark.parametrize(("elsewhere", "word"), [([], "ours"), (["e"], "foreign")])
def test_an_environment_that_others_use_as_well_shows_nothing(
    elsewhere: list[str], word: str
) -> None:
    """Found: a server that another profile had adopted was to be stopped, since it ran in an
    environment that both had."""
    marks = [{"kind": "environments", "name": "e", "how": "mapping"}]
    server = process(7, command=["vllm", "serve"], comm="vllm", marks=marks, devices=["nvidia0"])
    known = {
        "releases": {"r": {"identity": {"environment": "e"}}},
        "environments": {},
        "broken": {},
        "elsewhere": elsewhere,
    }
    (verdict,) = seen(wanted(), holders=look(server), releases=known).verdicts
    assert verdict.word == word
