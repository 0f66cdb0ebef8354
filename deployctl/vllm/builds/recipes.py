"""How an environment is made: from settings and facts to the steps of one job. Pure.

Paths begin with `@/`, the host's root; the agent puts them in place. `["@agent", "chore", …]` is
a chore of the agent itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deployctl.vllm.builds.wish import Confinement, Origin, Wish

JobStep = dict[str, Any]
NIGHTLY = ("Using the nightly wheel", "nightly wheel instead")
"""What upstream's setup.py says when it takes binaries of another commit."""
_CACHES = {
    "UV_CACHE_DIR": "uv",
    "PIP_CACHE_DIR": "pip",
    "CCACHE_DIR": "ccache",
    "SCCACHE_DIR": "sccache",
    "FETCHCONTENT_BASE_DIR": "dependencies",
}
"""Variables of the programs that keep something from one build to the next."""


def fetch(origin: Origin) -> list[JobStep]:
    """The commit, its history and upstream's main branch on the host."""
    arguments = [origin.repository, origin.url, origin.ref, origin.commit, origin.upstream]
    return [_chore("cloning", "fetch", *arguments)]


def release(wish: Wish, uv: str, requirement: Any) -> list[JobStep]:
    """A published version, or a wheel by path or URL: created, installed, named."""
    return [*create(wish, uv), *install(wish, uv, [requirement]), *provide(wish)]


def reuse(wish: Wish, uv: str, wheel_key: str) -> list[JobStep]:
    """A wheel that is kept on the host."""
    return release(wish, uv, {"glob": f"@/wheels/{wheel_key}/*.whl"})


def pack(environment: str, folder: str) -> JobStep:
    """Make an environment into wheels that other hosts install from."""
    return step("packing", ["@agent", "pack", environment, folder])


def shared(wish: Wish, uv: str, parcel: str, kept: Sequence[str]) -> list[JobStep]:
    """From the wheels of another host's environment, without any index; `kept` are the keys of
    wheels that were built there."""
    argv: list[Any] = [uv, "pip", "install", "--python", wish.interpreter, "--offline"]
    argv += ["--no-index", "--no-deps", "--find-links", f"{parcel}/wheels"]
    if wish.compile_bytecode:
        argv.append("--compile-bytecode")
    built = [{"glob": f"@/wheels/{key}/*.whl"} for key in kept]
    argv += ["--requirement", f"{parcel}/requirements.txt", *built]
    return [*create(wish, uv), step("installing", argv, wish.env), *provide(wish)]


def build(
    wish: Wish,
    uv: str,
    origin: Origin,
    wheel_key: str,
    record: Mapping[str, Any],
    env: Mapping[str, str],
    log: str,
) -> list[JobStep]:
    """A wheel from a working tree, kept under its key, then installed. `env` decides between
    compiling and upstream's binaries; `log` is the job's own, read for what must not be in it."""
    own = wish.confinement is not None
    dist = f"{wish.work if own else wish.tree}/dist"
    python = wish.interpreter if own or wish.base is not None else wish.python
    argv = [uv, "build", "--wheel", "--out-dir", dist, "--python", python]
    if wish.base is not None:
        # Built against the torch that it will run with.
        argv += ["--no-build-isolation"]
    if wish.wheels:
        argv += ["--find-links", _offered(wish)]
    argv += _places(wish)
    env = {**env, **wish.env}
    building = [
        *lay_out(wish, origin),
        *offer(wish, uv),
        confined(
            wish, step("compiling", [*argv, wish.tree], env, lock=_lock(env)), origin.repository
        ),
        _chore("compiling", "refuse", log, *NIGHTLY),
        _chore("keeping", "keep", dist, f"@/wheels/{wheel_key}", json.dumps(dict(record))),
    ]
    kept = {"glob": f"@/wheels/{wheel_key}/*.whl"}
    installing = [*install(wish, uv, [kept]), *provide(wish), *tidy(wish, origin)]
    if own or wish.base is not None:
        return [*create(wish, uv), *building, *installing]
    return [*building, *create(wish, uv), *installing]


def patch(wish: Wish, uv: str, origin: Origin, merge_base: str, tag: str) -> list[JobStep]:
    """A release with the difference from the merge base to the commit applied to it."""
    requirement = f"{wish.distribution}=={tag.removeprefix('v')}"
    arguments = [wish.environment, merge_base, origin.commit, wish.distribution]
    return [
        *release(wish, uv, requirement),
        _chore("patching", "patch", origin.repository, *arguments),
    ]


def patched(wish: Wish) -> list[JobStep]:
    """The profile's patch files applied to what is installed."""
    if not wish.patches:
        return []
    arguments = [wish.environment, wish.distribution, *wish.patch_files]
    return [_chore("patching", "apply", *arguments)]


def lay_out(wish: Wish, origin: Origin) -> list[JobStep]:
    """The working tree: of a commit, or of a checkout as it lies there."""
    if origin.checkout:
        return [_chore("cloning", "export", origin.repository, wish.tree)]
    submodules = "yes" if origin.submodules else ""
    return [_chore("cloning", "layout", origin.repository, origin.commit, wish.tree, submodules)]


def tidy(wish: Wish, origin: Origin) -> list[JobStep]:
    """The working tree goes when its wheel is kept and installed."""
    repository = wish.tree if origin.checkout else origin.repository
    return [_chore("installing", "discard", repository, wish.tree)]


def create(wish: Wish, uv: str) -> list[JobStep]:
    """An empty environment (or a copy of `base`); what a cut-off build left is cleared."""
    # A sealed environment is never changed, whoever asks.
    guard = step("checking", ["test", "!", "-e", f"{wish.environment}/seal.json"])
    if wish.base is not None:
        return [guard, _chore("creating", "link", wish.base, wish.environment)]
    # uv itself clears nothing that has lost its pyvenv.cfg, as after a removal that was cut off.
    cleared = step("creating", ["rm", "-rf", wish.environment])
    argv = [uv, "venv", "--python", wish.python, wish.environment]
    return [guard, cleared, step("creating", argv)]


def install(wish: Wish, uv: str, requirements: Sequence[Any]) -> list[JobStep]:
    """Install into the environment; wheels that pip's configuration offers are fetched first.

    With such a wheel there, --torch-backend is left out: it replaces the index for torch, and uv
    fails when that one cannot be reached although the wheel lies in --find-links.
    """
    argv: list[Any] = [uv, "pip", "install", "--python", wish.interpreter]
    if wish.compile_bytecode:
        argv.append("--compile-bytecode")
    if wish.overrides:
        argv += ["--override", wish.overrides_file]
    argv += _places(wish)
    # It replaces the index for torch.
    backend = ["--torch-backend", wish.torch_backend] if wish.torch_backend and wish.index else []
    wanted = [*requirements, *wish.extra]
    if not wish.wheels or not wish.index:
        return [confined(wish, step("installing", [*argv, *backend, *wanted], wish.env))]
    found = {"glob": f"{_offered(wish)}/*.whl"}
    with_offer = [*argv, "--find-links", _offered(wish), *wanted]
    without = [*argv, *backend, *wanted]
    return [
        *offer(wish, uv),
        confined(wish, step("installing", with_offer, wish.env, when={**found, "present": True})),
        confined(wish, step("installing", without, wish.env, when={**found, "present": False})),
    ]


def _places(wish: Wish) -> list[str]:
    """Where wheels come from, beside or instead of the index."""
    folder = ["--find-links", wish.wheels_dir] if wish.wheels_dir is not None else []
    return [*folder, *([] if wish.index else ["--no-index"])]


def offer(wish: Wish, uv: str) -> list[JobStep]:
    """Wheels that pip's own configuration offers; there may be none."""
    if not wish.wheels or not wish.index:
        return []
    offering = _chore("resolving", "offer", _offered(wish), wish.python, uv, *wish.wheels)
    missing = {"glob": f"{_offered(wish)}/*.whl", "present": False}
    return [{**offering, "when": missing, "optional": True}]


def provide(wish: Wish) -> list[JobStep]:
    """The name `vllm` for a distribution that provides the package under another name."""
    if wish.distribution == "vllm":
        return []
    local = "cpu" if wish.target == "cpu" else ""
    return [_chore("naming", "provide", wish.environment, wish.distribution, local)]


def confined(wish: Wish, made: JobStep, *shown: str) -> JobStep:
    """The same command, as the user to whom code of others is confined."""
    whom = wish.confinement
    if whom is None:
        return made
    # One at a time: two builds of one user could reach each other.
    lock = "@/builds/confined.lock"
    argv, env = _confining(wish, whom, wish.environment, shown)
    argv = ["@agent", *argv, *made["argv"]]
    return {**made, "argv": argv, "env": {**made["env"], **env, **wish.env}, "lock": lock}


def confined_reader(wish: Wish) -> dict[str, Any] | None:
    """The `argv` and `env` in front of a command that runs what is in the environment without
    changing it; None where the agent's own user does."""
    if wish.confinement is None:
        return None
    argv, env = _confining(wish, wish.confinement, "", [wish.environment])
    return {"argv": argv, "env": env}


def _confining(
    wish: Wish, whom: Confinement, owned: str, shown: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    cache = f"@/caches/{whom.cache}"
    own = {
        "HOME": f"{wish.work}/home",
        "TMPDIR": f"{wish.work}/tmp",
        "XDG_CACHE_HOME": cache,
        **{name: f"{cache}/{folder}" for name, folder in _CACHES.items()},
    }
    argv = ["chore", "confined", whom.user, wish.work, owned, cache, "@", *whom.hidden]
    return [*argv, "+", *whom.shown, *shown, "--"], own


def step(
    phase: str,
    argv: Sequence[Any],
    env: Mapping[str, str] | None = None,
    *,
    when: Mapping[str, Any] | None = None,
    lock: str | None = None,
) -> JobStep:
    """One command of a job."""
    made: JobStep = {"phase": phase, "argv": list(argv), "env": dict(env or {})}
    if when is not None:
        made["when"] = dict(when)
    if lock is not None:
        made["lock"] = lock
    return made


def _chore(phase: str, name: str, *arguments: str) -> JobStep:
    return step(phase, ["@agent", "chore", name, *arguments])


def _lock(env: Mapping[str, str]) -> str | None:
    """What keeps compiling apart from other builds: CMake itself does not guard the directory that
    it fetches dependencies to. Upstream's binaries are taken without it."""
    shared = env.get("FETCHCONTENT_BASE_DIR")
    return f"{shared}.lock" if shared and env.get("VLLM_USE_PRECOMPILED") != "1" else None


def _offered(wish: Wish) -> str:
    return f"{wish.work}/offered"
