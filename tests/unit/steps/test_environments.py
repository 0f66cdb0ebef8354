"""The names of environments and wheels: equal wishes are equal, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from deployctl.config.build import BuildSettings, SourceSettings
from deployctl.config.profile import Profile
from deployctl.steps.build import BuildStep, environment_key, sealed
from deployctl.steps.builds.environments import cache, damage_before, wheel_key
from deployctl.steps.interface import Answers, Deployment, Unanswered, Unknown
from deployctl.steps.verify import VerifyStep
from deployctl.vllm.fixes.registry import by_name

COMMIT = "c" * 40
TOOLS: Any = {
    "capabilities": ["12.0"],
    "machine": "x86_64",
    "libc": "glibc-2.36",
    "nvcc_version": "12.9",
    "uv": "/usr/bin/uv",
    "uv_version": "0.13.9",
}


def wanted(**build: Any) -> Deployment:
    settings = BuildSettings(**{"source": {"ref": "main"}, **build})
    profile = Profile.model_validate(
        {
            "name": "p",
            "hosts": [{"name": "h", "local": True}],
            "model": {"path": "/m", "served_name": "m"},
            "build": settings,
            "fixes": {"require": ["dflash-layer-offset"]},
            "serve": {"port": 1},
        }
    )
    return Deployment(profile, profile.hosts[0])


def answers(**changes: Any) -> Answers:
    values: dict[str, Any] = {
        "tools": TOOLS,
        "source": {"identity": COMMIT, "commit": COMMIT, "ref": "refs/heads/main"},
        "releases": {"environments": {}, "broken": {}},
        "build_user": {"user": None, "agent": "root", "why": "build.user is root"},
        **changes,
    }
    return Answers(values)


def key(**build: Any) -> str:
    return environment_key(wanted(**build), answers())


@pytest.mark.parametrize(
    ("environments", "broken", "expected"),
    [
        ({}, {}, "KEY"),
        ({"KEY": {"key": "KEY"}}, {}, "KEY"),
        ({"KEY": None}, {}, "KEY"),
        ({"KEY": None}, {"KEY": ["x"]}, "KEY-2"),
        ({"KEY": None, "KEY-2": None}, {"KEY": ["x"]}, "KEY-2"),
        ({"KEY": None, "KEY-2": {"key": "KEY-2"}}, {"KEY": ["x"]}, "KEY-2"),
        ({"KEY": None, "KEY-2": None}, {"KEY": ["x"], "KEY-2": ["y"]}, "KEY-3"),
        # What is proven stays the wanted one when the damaged one before it is gone.
        ({"KEY-2": {"key": "KEY-2"}}, {}, "KEY-2"),
        ({"KEY-2": None}, {"KEY-2": ["y"]}, "KEY-3"),
        ({"other": {"key": "other"}, "KEYS-2": {}}, {"other": ["z"]}, "KEY"),
    ],
)
def test_what_was_damaged_is_never_built_over(
    environments: dict[str, Any], broken: dict[str, list[str]], expected: str
) -> None:
    def named(names: dict[str, Any]) -> dict[str, Any]:
        return {name.replace("KEY", key()): value for name, value in names.items()}

    found = answers(releases={"environments": named(environments), "broken": named(broken)})
    assert environment_key(wanted(), found) == expected.replace("KEY", key())
    told = [text for name, why in broken.items() if name.startswith("KEY") for text in why]
    assert damage_before(wanted(), found) == told


def test_a_build_after_damage_says_what_was_damaged() -> None:
    found = {"environments": {key(): None}, "broken": {key(): ["x.py is missing"]}}
    (change,) = BuildStep().plan(wanted(), answers(releases=found)).changes
    assert change.new == f"{key()}-2"
    built = "built as root: build.user is root"
    assert change.why == f"the one before was damaged: x.py is missing; {built}"


def test_how_it_is_built_does_not_name_it() -> None:
    assert key() == key(max_jobs=3, stall="1h", limit="9h", precompiled_index="https://mirror")


@pytest.mark.parametrize(
    "change",
    [
        {"python": "3.11"},
        {"target": "cpu"},
        {"torch_backend": "cu130"},
        {"overrides": ["triton; sys_platform == 'never'"]},
        {"extra": ["ray"]},
        {"env": {"A": "1"}},
        {"strategy": "source"},
        {"environment": "in-place", "base": "/root/ml-env"},
        {"source": {"ref": "other"}},
        {"source": {"release": "0.33.0"}},
    ],
)
def test_what_is_built_names_it(change: dict[str, Any]) -> None:
    assert key(**change) != key()


def test_a_branch_that_moved_is_another_environment() -> None:
    moved = answers(source={"identity": "d" * 40, "commit": "d" * 40})
    assert environment_key(wanted(), moved) != key()


def test_a_release_needs_neither_source_nor_tools() -> None:
    nothing = answers(source=Unknown("network", "down"), tools=Unknown("x", "y"))
    assert environment_key(wanted(source={"release": "0.33.0"}), nothing)


def test_unknown_sources_and_gpus_are_not_guessed() -> None:
    with pytest.raises(Unanswered, match="no branch"):
        environment_key(wanted(), answers(source=Unknown("no-ref", "no branch or tag main")))
    with pytest.raises(Unanswered, match="compute capability"):
        environment_key(wanted(), answers(tools={**TOOLS, "capabilities": None}))


def test_wheels_are_named_by_what_they_are_compiled_for() -> None:
    build = wanted().profile.build
    first = wheel_key(build, COMMIT, "source", TOOLS)
    assert first == wheel_key(build.model_copy(update={"extra": ["ray"]}), COMMIT, "source", TOOLS)
    for other in ({"capabilities": ["9.0"]}, {"nvcc_version": "13.0"}, {"libc": "glibc-2.28"}):
        assert wheel_key(build, COMMIT, "source", TOOLS | other) != first
    assert wheel_key(build, "d" * 40, "source", TOOLS) != first
    assert wheel_key(build, COMMIT, "precompiled", TOOLS) != first
    cpu = build.model_copy(update={"target": "cpu"})
    assert wheel_key(cpu, COMMIT, "source", TOOLS) == wheel_key(
        cpu, COMMIT, "source", TOOLS | {"nvcc_version": "13.0"}
    )


def seal(fixes: dict[str, str]) -> dict[str, Any]:
    entries = [{"fix": name, "verdict": verdict, "evidence": []} for name, verdict in fixes.items()]
    return {"evidence": {"build": {"strategy": "source"}, "verify": {"fixes": entries}}}


def plans(sealed_with: dict[str, Any] | None, **build: Any) -> tuple[str, str]:
    wish = wanted(**build)
    environments = {key(**build): sealed_with} if sealed_with else {}
    found = answers(releases={"environments": environments, "broken": {}})
    assert (sealed(found, key(**build)) is not None) is (sealed_with is not None)
    return BuildStep().plan(wish, found).status, VerifyStep().plan(wish, found).status


def test_plans() -> None:
    every = dict.fromkeys(by_name(), "present")
    assert plans(None) == ("change", "check")
    assert plans(seal(every)) == ("unchanged", "unchanged")
    # A required fix that is not there, and one that this version has learnt of since.
    assert plans(seal({**every, "dflash-layer-offset": "absent"})) == ("unchanged", "check")
    del every["dflash-lm-head"]
    assert plans(seal(every)) == ("unchanged", "check")


def test_a_forced_strategy_needs_a_repository() -> None:
    status, _ = plans(None, source={"release": "0.33.0"}, strategy="patch")
    assert status == "blocked"


def test_as_whom_it_is_built() -> None:
    made = wanted(source={"ref": "main"})
    named = {"build_user": {"user": "deployctl-build", "agent": "root", "why": ""}}
    assert BuildStep().plan(made, answers(**named)).changes[0].why.endswith("as deployctl-build")
    told = BuildStep().plan(made, answers()).changes[0].why
    assert told.endswith("; built as root: build.user is root")
    refused = Unknown("not-confined", "a build cannot run as b: the agent is not root")
    plan = BuildStep().plan(made, answers(build_user=refused))
    assert (plan.status, plan.reason.split(";")[0]) == ("blocked", refused.reason)
    released = BuildStep().questions(wanted(source={"release": "0.33.0"}))
    assert "build_user" not in [question.key for question in released]
    for build in ({"source": {"release": "0.33.0"}, "user": "b"}, {"source": {"path": "/x"}}):
        asked = {str(q.key): q.call.args for q in BuildStep().questions(wanted(**build))}
        assert asked["build_user"] == {"user": build.get("user")}


def test_the_user_is_no_part_of_what_is_built() -> None:
    assert key(source={"ref": "main"}, user="a") == key(source={"ref": "main"})
    caches = {cache(SourceSettings(**source)) for source in ({"pr": 1}, {"pr": 2}, {"ref": "main"})}
    assert len(caches) == 3
