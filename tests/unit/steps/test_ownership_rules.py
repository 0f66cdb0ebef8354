"""What no scope may ever do, over random crowds of processes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deployctl.config.clean import Scope
from deployctl.steps.gpus.holders import Process
from deployctl.steps.gpus.ownership import Mine, judge, select

NODE, CT, OTHER_CT = 1, 2, 3
GPUS = ("gpu0", "gpu1")
COMMANDS = (
    ("VLLM::EngineCore",),
    ("VLLM::Worker_TP0",),
    ("/env/bin/vllm", "serve", "/m"),
    ("python", "-c", "from multiprocessing.resource_tracker import main"),
    ("raylet",),
    ("ray::RayWorkerWrapper",),
    ("python", "train.py"),
    ("bash", "-c", "vllm serve /m"),
    ("Xorg",),
    ("nvidia-persistenced",),
)
MARKS = (
    (),
    (("profiles", "prod", "file"),),
    (("profiles", "other", "file"),),
    (("environments", "e1", "mapping"),),
)
SCOPES: tuple[Scope, ...] = ("ours", "container", "gpu")


@st.composite
def crowds(draw: st.DrawFn) -> list[Process]:
    pids = list(range(2, 2 + draw(st.integers(1, 8))))
    crowd = []
    for pid in pids:
        command = draw(st.sampled_from(COMMANDS))
        gpus = draw(st.none() | st.frozensets(st.sampled_from(GPUS)))
        place = draw(st.sampled_from([(NODE,), (CT, NODE), (OTHER_CT, NODE)]))
        crowd.append(
            Process(
                pid=pid,
                start=pid * 10,
                comm=command[0][:15],
                command=command,
                parent=draw(st.sampled_from([0, 1, *pids])),
                group=draw(st.sampled_from([7, 8])),
                session=draw(st.sampled_from([7, 8])),
                zombie=draw(st.booleans()) and draw(st.booleans()),
                frozen=draw(st.booleans()) and draw(st.booleans()),
                namespaces=place,
                inner_pids=(pid, pid + 100)[: len(place)],
                devices=frozenset({"nvidia0"} if gpus or gpus is None else ()),
                gpus=gpus,
                marks=draw(st.sampled_from(MARKS)),
                unreadable=draw(st.sampled_from([(), (), ("fd",)])),
                own=draw(st.integers(0, 9)) == 0,
            )
        )
    return crowd


@st.composite
def mine(draw: st.DrawFn) -> Mine:
    container = draw(st.booleans())
    return Mine(
        "prod",
        unit=draw(st.sampled_from([frozenset(), frozenset({(2, 20)}), frozenset({(102, 20)})])),
        environments=draw(st.sampled_from([frozenset(), frozenset({"e1"})])),
        namespace=CT if container else NODE,
        container=container,
        gpus=draw(st.frozensets(st.sampled_from(GPUS))),
    )


@given(crowds(), mine(), st.sampled_from(SCOPES))
def test_whom_no_scope_stops(crowd: list[Process], ours: Mine, scope: Scope) -> None:
    verdicts = judge(crowd, ours)
    assert [v.process for v in verdicts] == crowd
    for verdict in select(verdicts, ours, scope).stop:
        process = verdict.process
        assert verdict.word in ("ours", "foreign")
        assert not (process.zombie or process.frozen or process.own)
        assert process.comm not in ("Xorg", "nvidia-persiste")
        assert not process.gpus or process.gpus & ours.gpus, "it holds none of the profile's GPUs"
        if verdict.word == "foreign":
            assert scope != "ours"
            assert process.gpus and process.gpus <= ours.gpus
            assert scope == "gpu" or (ours.container and CT in process.namespaces)


@given(crowds(), mine())
def test_another_profiles_processes_are_never_ours(crowd: list[Process], ours: Mine) -> None:
    for verdict in judge(crowd, ours):
        process = verdict.process
        in_unit = (process.pid, process.start) in ours.unit or (
            process.pid + 100,
            process.start,
        ) in ours.unit
        if process.profiles() == {"other"} and not in_unit:
            assert verdict.word != "ours"


@given(crowds(), mine())
def test_a_wider_scope_stops_at_least_as_many(crowd: list[Process], ours: Mine) -> None:
    verdicts = judge(crowd, ours)
    chosen = [{v.process.pid for v in select(verdicts, ours, scope).stop} for scope in SCOPES]
    assert chosen[0] <= chosen[1] <= chosen[2]


@given(crowds(), mine())
def test_without_any_tie_nothing_is_ours(crowd: list[Process], ours: Mine) -> None:
    strangers = Mine("nobody", namespace=NODE, gpus=ours.gpus)
    assert all(verdict.word != "ours" for verdict in judge(crowd, strangers))


@given(crowds(), mine())
def test_who_stays_on_the_profiles_gpus_is_told(crowd: list[Process], ours: Mine) -> None:
    chosen = select(judge(crowd, ours), ours, "ours")
    told = {v.process.pid for v in (*chosen.stop, *chosen.frozen, *chosen.spared)}
    for process in crowd:
        if not process.zombie and process.gpus and process.gpus & ours.gpus:
            assert process.pid in told
