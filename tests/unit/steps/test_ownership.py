"""Whose a process is and who is stopped, as data: no host, no process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from deployctl.agent.gpu import nvidia_table
from deployctl.config.clean import Scope
from deployctl.steps.gpus.holders import Process
from deployctl.steps.gpus.ownership import Mine, Verdict, judge, select, system_name
from deployctl.steps.servers import siblings
from tests.hosts.step_bench import deployment

CASES = Path(__file__).parents[2] / "cases"
NODE, CT, OTHER_CT = 1, 2, 3
"""PID namespaces: of the node, of the profile's container, of another one."""
G2 = frozenset({"gpu2"})
MINE = Mine("prod", namespace=CT, container=True, gpus=G2)


def process(pid: int, **facts: object) -> Process:
    defaults: dict[str, object] = {
        "start": pid * 10,
        "namespaces": (CT, NODE),
        "inner_pids": (pid, pid + 1000),
        "group": pid,
        "session": pid,
        "parent": 1,
    }
    made = Process(pid=pid, **{**defaults, **facts})  # type: ignore[arg-type]
    return made if made.comm or not made.command else replace(made, comm=made.command[0][:15])


def engine(pid: int, gpus: Iterable[str] = G2, **facts: object) -> Process:
    held = frozenset(gpus)
    devices = frozenset({"nvidia2"} if held else ())
    return process(
        pid, **{"command": ("VLLM::EngineCore",), "gpus": held, "devices": devices, **facts}
    )


def verdicts(processes: Sequence[Process], mine: Mine = MINE) -> dict[int, str]:
    return {v.process.pid: v.word for v in judge(processes, mine)}


def stopped(processes: Sequence[Process], mine: Mine = MINE, scope: Scope = "ours") -> list[int]:
    return [v.process.pid for v in select(judge(processes, mine), mine, scope).stop]


# -- case 7: a shared box -------------------------------------------------------------------------


def shared_box(container: bool) -> list[Process]:
    shown = (CASES / "nvidia_smi/shared_box_other_workloads.txt").read_text()
    return [
        process(
            row["pid"],
            command=(row["name"],),
            gpus=frozenset({f"gpu{row['gpu']}"}),
            devices=frozenset({f"nvidia{row['gpu']}"}),
            memory=row["memory"],
            namespaces=(CT, NODE) if container and row["pid"] == 2148808 else (NODE,),
        )
        for row in nvidia_table.parse_processes(shown)
    ]


@pytest.mark.parametrize("scope", ["ours", "container"])
def test_only_the_proven_one_of_a_shared_box_is_signalled(scope: Scope) -> None:
    processes = shared_box(container=True)
    chosen = select(judge(processes, MINE), MINE, scope)
    assert [v.process.pid for v in chosen.stop] == [2148808]
    assert [(v.process.pid, v.process.memory) for v in chosen.spared] == [(3180618, 740)]


def test_without_proof_of_ownership_nothing_is_stopped() -> None:
    mine = replace(MINE, container=False, namespace=NODE)
    assert stopped(shared_box(container=False), mine) == []


@pytest.mark.parametrize("scope", ["ours", "container", "gpu"])
def test_what_waits_for_its_turn_stays_whatever_files_of_the_driver_it_has_open(
    scope: Scope,
) -> None:
    marks = (("profiles", "prod", "argument"), ("environments", "e1", "mapping"))
    waits = process(
        7,
        command=("/env/bin/python", "/root/profiles/prod/units/server/next/launcher.py"),
        gpus=frozenset(),
        devices=frozenset({"nvidiactl"}),
        marks=marks,
    )
    assert stopped([waits], scope=scope) == [7], "anything else of ours is stopped"
    assert stopped([waits], replace(MINE, waits=(1007, 70)), scope) == []
    # By its number in the container; another process that has it by now is judged like any other.
    assert stopped([waits], replace(MINE, waits=(1007, 71)), scope) == [7]


def test_the_unit_is_proof_enough() -> None:
    mine = Mine("prod", unit=frozenset({(2148808, 21488080)}), namespace=NODE, gpus=G2)
    processes = [replace(p, inner_pids=(p.pid,)) for p in shared_box(container=False)]
    assert stopped(processes, mine) == [2148808]


def test_the_widest_scope_stays_on_the_profiles_gpu() -> None:
    assert stopped(shared_box(container=True), MINE, "gpu") == [2148808, 3180618]


# -- case 8: orphans in disguise ------------------------------------------------------------------


def test_orphans_under_a_living_shell_are_found_and_the_shell_is_not() -> None:
    shell = process(81, command=("bash", "-c", "vllm serve /models/m --port 8000"))
    orphans = [
        engine(90, comm="VLLM::EngineCor", command=(), parent=81),
        engine(91, command=("VLLM::Worker_TP0",), parent=81),
        engine(92, command=("VLLM::StageEngineCoreProc_DP0",), parent=81),
    ]
    assert stopped([shell, *orphans]) == [90, 91, 92]
    assert verdicts([shell, *orphans])[81] == "foreign"


def test_the_tree_of_a_stage_engine_goes_as_a_whole() -> None:
    lines = (CASES / "nvidia_smi/ps_with_stage_engine.txt").read_text().splitlines()[1:]
    rows = [re.split(r"\s+", line, maxsplit=7) for line in lines]
    processes = [
        process(
            int(row[1]),
            parent=int(row[2]),
            command=tuple(row[7].split(" ", 2) if " -c " in row[7] else row[7].split()),
            gpus=G2 if "::" in row[7] else frozenset(),
            devices=frozenset({"nvidia2"} if "::" in row[7] else ()),
        )
        for row in rows
    ]
    assert sorted(stopped(processes)) == [530020, 530283, 530284, 530287]
    assert stopped(processes)[0] == 530020, "the server goes first"


# -- verdicts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "word"),
    [
        (engine(5), "ours"),
        (engine(5, namespaces=(OTHER_CT, NODE)), "foreign"),
        (engine(5, namespaces=(NODE,)), "foreign"),
        (engine(5, {"gpu1"}), "foreign"),
        (engine(5, {"gpu1", "gpu2"}), "foreign"),
        (engine(5, ()), "foreign"),
        (replace(engine(5), gpus=None), "unknown"),
        (engine(5, marks=(("profiles", "other", "file"),)), "foreign"),
        (engine(5, {"gpu1"}, marks=(("profiles", "prod", "file"),)), "ours"),
        (engine(5, own=True), "system"),
        (process(5, command=("python", "train.py"), gpus=G2), "foreign"),
        (process(5, command=("/usr/bin/nvidia-persistenced",), gpus=G2), "system"),
        (process(5, comm="nvidia-persiste", gpus=G2), "system"),
        (process(5, comm="node_exporter"), "system"),
        (process(5, comm="mine", unreadable=("fd",)), "unknown"),
        (process(5, comm="mine", unreadable=("fd",), zombie=True), "foreign"),
    ],
)
def test_one_process(one: Process, word: str) -> None:
    assert verdicts([one]) == {5: word}


def test_a_docker_container_inside_ours_belongs_to_it() -> None:
    nested = engine(5, namespaces=(7, CT, NODE), inner_pids=(5, 105, 1))
    assert verdicts([nested]) == {5: "ours"}


def test_a_file_below_the_profile_is_no_proof_for_an_editor() -> None:
    marks = (("profiles", "prod", "file"),)
    assert verdicts([process(5, command=("tail", "-f", "server.log"), marks=marks)]) == {
        5: "foreign"
    }


def test_without_gpus_only_what_our_records_name_is_ours() -> None:
    mine = Mine("demo", environments=frozenset({"e1"}), namespace=NODE)
    processes = [
        engine(5, (), marks=(("profiles", "demo", "file"),)),
        engine(6, ()),
        process(7, command=("/e1/bin/vllm", "serve"), marks=(("environments", "e1", "mapping"),)),
        process(8, command=("python", "-c", "import x"), marks=(("environments", "e1", "m"),)),
        process(9, command=("vllm", "serve"), marks=(("environments", "e2", "mapping"),)),
    ]
    assert stopped(processes, mine) == [7, 5]


def test_what_a_job_of_ours_left_on_a_gpu_is_ours() -> None:
    mine = Mine("prod", jobs=frozenset({"build-e1"}), namespace=NODE, gpus=G2)
    left = process(5, command=("python",), gpus=G2, devices=frozenset({"nvidia2"}))
    marked = replace(left, marks=(("jobs", "build-e1", "file"),))
    assert stopped([marked], mine) == [5]
    assert stopped([replace(marked, marks=(("jobs", "build-e2", "file"),))], mine) == []
    assert stopped([replace(marked, gpus=frozenset(), devices=frozenset())], mine) == []


def test_a_server_without_a_gpu_follows_its_engine() -> None:
    server = process(5, command=("/env/bin/vllm", "serve", "/m"))
    tracker = process(
        6, command=("python", "-c", "from multiprocessing.resource_tracker import main"), parent=5
    )
    assert stopped([server, tracker, engine(7, parent=5)]) == [5, 7, 6]
    assert stopped([server, tracker, engine(7, {"gpu1"}, parent=5)]) == []


def test_two_servers_of_one_shell_are_told_apart_by_their_gpus() -> None:
    shell = process(3, command=("bash",))
    ours = [
        process(5, command=("vllm", "serve"), parent=3, session=3),
        engine(6, parent=5, session=3, group=5),
    ]
    theirs = [
        process(8, command=("vllm", "serve"), parent=3, session=3),
        engine(9, {"gpu3"}, parent=8, session=3, group=8),
    ]
    assert stopped([shell, *ours, *theirs]) == [5, 6]


def test_an_orphaned_tracker_goes_with_its_group_and_a_child_with_its_parent() -> None:
    tracker = process(
        6,
        command=("python", "-c", "from multiprocessing.resource_tracker import main"),
        group=5,
        session=5,
    )
    child = process(8, command=("python", "helper.py"), parent=7)
    assert sorted(stopped([engine(7, group=5, session=5), tracker, child])) == [6, 7, 8]


def test_another_profile_in_the_same_container_is_left_alone() -> None:
    marks = (("profiles", "other", "file"),)
    server = process(5, command=("vllm", "serve"), marks=marks)
    assert stopped([server, engine(6, parent=5, marks=marks)]) == []


def test_a_ray_node_goes_first_unless_it_runs_other_work_too() -> None:
    node = process(5, command=("/env/raylet",), comm="raylet")
    worker = engine(6, command=("ray::RayWorkerWrapper",), parent=5)
    other = process(
        7,
        command=("ray::train_fn",),
        parent=5,
        devices=frozenset({"nvidia2"}),
        gpus=G2,
    )
    assert stopped([node, worker]) == [5, 6]
    assert stopped([node, worker, other]) == []


# -- scopes ---------------------------------------------------------------------------------------


CROWD = [
    engine(5),
    process(6, command=("python", "train.py"), gpus=G2, devices=frozenset({"nvidia2"})),
    process(7, command=("job",), gpus=G2, namespaces=(OTHER_CT, NODE)),
    process(8, command=("wide",), gpus=frozenset({"gpu1", "gpu2"})),
    process(9, command=("elsewhere",), gpus=frozenset({"gpu1"})),
    process(10, command=("Xorg",), gpus=G2, namespaces=(NODE,)),
    process(11, comm="odd", gpus=G2, unreadable=("fd",)),
    process(12, comm="dead", gpus=G2, zombie=True),
    process(13, command=("exporter",), gpus=G2),
]


@pytest.mark.parametrize(
    ("scope", "expected"), [("ours", [5]), ("container", [5, 6]), ("gpu", [5, 6, 7])]
)
def test_no_scope_takes_system_unknown_or_other_gpus(scope: Scope, expected: list[int]) -> None:
    mine = replace(MINE, system=("exporter",))
    assert sorted(stopped(CROWD, mine, scope)) == expected
    spared = {v.process.pid for v in select(judge(CROWD, mine), mine, scope).spared}
    assert spared == {5, 6, 7, 8, 10, 11, 13} - set(expected)


def test_what_is_frozen_is_told_apart_and_not_signalled() -> None:
    chosen = select(judge([engine(5, frozen=True)], MINE), MINE, "gpu")
    assert chosen.stop == ()
    assert [v.process.pid for v in chosen.frozen] == [5]


def test_ours_on_another_gpu_is_not_in_the_way() -> None:
    stale = engine(5, {"gpu1"}, marks=(("profiles", "prod", "file"),))
    assert stopped([stale]) == []


def test_every_verdict_says_why() -> None:
    assert all(verdict.why for verdict in judge(CROWD, MINE))
    assert isinstance(judge(CROWD, MINE)[0], Verdict)


def test_names_of_system_services() -> None:
    assert system_name(process(1, comm="nvidia-persiste")) == "nvidia-persistenced"
    assert system_name(process(1, command=("/usr/lib/xorg/Xorg", ":0"))) == "Xorg"
    assert system_name(process(1, command=("python", "Xorg"))) is None
    assert system_name(process(1, command=("mine",)), ("mine",)) == "mine"


@pytest.mark.parametrize("other", ["prod", "prod/green", "prod.blue"])
def test_what_serves_in_a_unit_beside_it_is_no_units_own(other: str) -> None:
    """Whatever they share: the environment, the profile, the machine."""
    prod = deployment({"name": "prod"})
    blue = siblings.of_unit(prod, "blue").owner
    mine = Mine(blue, environments=frozenset({"e1"}), namespace=NODE)
    shares = ("environments", "e1", "mapping")
    servers = [
        engine(5, (), marks=(("profiles", other, "file"), shares)),
        engine(6, (), marks=(("profiles", blue, "file"), shares)),
    ]
    assert {v.process.pid: v.word for v in judge(servers, mine)} == {5: "foreign", 6: "ours"}
    assert siblings.of_unit(prod, "server").owner == prod.owner == "prod"
