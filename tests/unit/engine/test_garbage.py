"""What may go from a host, from an inventory alone."""

from __future__ import annotations

from typing import Any

import pytest

from deployctl.engine.ledger.garbage import doomed


def release(environment: str, sealed: float | None = None, *mentions: str) -> dict[str, Any]:
    return {
        "sealed": sealed,
        "prepared": None,
        "environment": environment,
        "models": [f"/root/models/target-{environment}"],
        "mentions": list(mentions),
        "bytes": 1,
    }


def inventory() -> Any:
    return {
        "profiles": {
            "a": {
                "server": {
                    "current": "a5",
                    "previous": "a4",
                    "running": "a3",
                    "releases": {
                        "a1": release("e1", 1.0),
                        "a2": release("e2", 2.0),
                        "a3": release("e3", None),
                        "a4": release("e4", 4.0),
                        "a5": release("e5", 5.0, "build-e5", "/root/wheels/w5/x.whl", "used-cache"),
                        "failed": release("e6"),
                    },
                }
            },
            "b": {
                "server": {
                    "current": "b1",
                    "previous": None,
                    "running": None,
                    "releases": {"b1": release("e7", 1.0), "b0": release("e8")},
                }
            },
        },
        "environments": {f"e{n}": {"bytes": 10} for n in range(1, 10)},
        "compiled": {f"e{n}": {"bytes": 1} for n in (1, 5, 9)},
        "models": {"target-e1": {"bytes": 1}, "target-e5": {"bytes": 1}},
        "shipping": {},
        "routers": {},
        "programs": [],
        "wheels": {"w5": {"bytes": 1}, "w0": {"bytes": 1}},
        "caches": {"used-cache": {"bytes": 1}, "old-cache": {"bytes": 1}},
        "jobs": {
            "build-e5": {"bytes": 1, "state": "done", "label": {"key": "e5"}},
            "build-e0": {"bytes": 1, "state": "failed", "label": {"key": "e0"}},
        },
    }


def test_a_job_that_runs_keeps_what_it_makes() -> None:
    found = inventory()
    found["environments"] |= {"e9-2": {"bytes": 1}}
    found["models"] |= {name: {"bytes": 1} for name in ("m-1", "m-1.part", "m-2.part")}
    found["jobs"] |= {
        "build-e9-2": {"bytes": 1, "state": "running", "label": {"key": "e9-2"}},
        "fetch-m-1": {"bytes": 1, "state": "running", "label": {"folder": "/root/models/m-1"}},
    }
    gone = {(one.kind, one.name) for one in doomed(found, "a", 0)}
    assert ("environments", "e9") in gone and ("models", "m-2.part") in gone
    assert not gone & {("environments", "e9-2"), ("models", "m-1"), ("models", "m-1.part")}
    assert not [name for kind, name in gone if kind == "wheels"], "it may be about to install one"


@pytest.mark.parametrize(
    ("keep", "releases", "environments"),
    [
        (0, {"a1", "a2", "failed"}, {"e1", "e2", "e6", "e9"}),
        (1, {"a1", "failed"}, {"e1", "e6", "e9"}),
        (2, {"failed"}, {"e6", "e9"}),
    ],
)
def test_what_nobody_refers_to_goes(keep: int, releases: set[str], environments: set[str]) -> None:
    gone = doomed(inventory(), "a", keep)
    assert {one.name for one in gone if one.kind == "releases"} == releases
    assert {one.name for one in gone if one.kind == "environments"} == environments
    compiled = {one.name for one in gone if one.kind == "compiled"}
    assert compiled == environments & {"e1", "e5", "e9"}
    assert {one.name for one in gone if one.kind == "wheels"} == {"w0"}
    assert {one.name for one in gone if one.kind == "jobs"} == {"build-e0"}
    assert all(one.profile == "a" for one in gone if one.kind == "releases")


def test_what_is_prepared_stays_with_all_that_it_stands_on() -> None:
    found = inventory()
    made = [f"/root/jobs/build-e{n}/log" for n in (6, 9)]
    for name, time in (("failed", 9.0), ("next", 8.0)):
        place = {"failed": "e6", "next": "e9"}[name]
        found["profiles"]["a"]["server"]["releases"][name] = {
            **release(place, None, *made),
            "prepared": time,
        }
    found["models"]["target-e6"] = {"bytes": 1}
    gone = {(one.kind, one.name) for one in doomed(found, "a", 0)}
    assert ("releases", "next") in gone, "only the newest where none is to be kept"
    assert not {("releases", "failed"), ("environments", "e6"), ("models", "target-e6")} & gone
    gone = {(one.kind, one.name) for one in doomed(found, "a", 2)}
    assert not {("releases", "next"), ("environments", "e9")} & gone


def test_both_slots_of_a_profile_are_collected() -> None:
    found = inventory()
    found["profiles"]["b"]["blue"] = found["profiles"]["b"].pop("server")
    gone = [one for one in doomed(found, "b", 0) if one.kind == "releases"]
    assert [(one.profile, one.unit, one.name) for one in gone] == [("b", "blue", "b0")]


def test_caches_of_a_source_go_with_its_last_release() -> None:
    found = inventory()
    caches = {one.name for one in doomed(found, "a", 9) if one.kind == "caches"}
    assert caches == {"old-cache"}
    found["jobs"]["build-e9"] = {"bytes": 1, "state": "running", "label": {"cache": "old-cache"}}
    assert not [one for one in doomed(found, "a", 9) if one.kind == "caches"]


def test_routers_that_no_profile_has_go() -> None:
    found = inventory()
    found["routers"] = {f"vllm-router-0.1.{n}": {"bytes": 7} for n in (15, 16, 17)}
    found["programs"] = ["/root/routers/vllm-router-0.1.17/bin/vllm-router"]
    gone = [one.name for one in doomed(found, "a", 0) if one.kind == "routers"]
    assert gone == ["vllm-router-0.1.15", "vllm-router-0.1.16"]
    label = {"router": "vllm-router==0.1.16", "folder": "vllm-router-0.1.16"}
    found["jobs"]["router-0.1.16"] = {"bytes": 1, "state": "running", "label": label}
    gone = [one.name for one in doomed(found, "a", 0) if one.kind == "routers"]
    assert gone == ["vllm-router-0.1.15"], "it is being installed"
