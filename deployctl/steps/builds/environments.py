"""The names of environments and wheels, and what the recipes take from a profile. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deployctl.agent.wire.builds import Confined, Imports, Installed, ResolvedSource, Tools
from deployctl.config.build import BuildSettings, SourceSettings
from deployctl.config.profile import Profile
from deployctl.hosts.operations import environment
from deployctl.steps.builds import patches
from deployctl.steps.facts import BUILD_USER, RELEASES, SOURCE, TOOLS
from deployctl.steps.identity import digest
from deployctl.steps.interface import Answers, Context, Deployment, Unanswered
from deployctl.vllm.builds import recipes
from deployctl.vllm.builds.wish import Confinement, Origin, Wish

# How a build is carried out does not change what comes out of it.
_NOT_BUILT: Any = {
    "max_jobs": True,
    "user": True,
    "stall": True,
    "limit": True,
    "precompiled_index": True,
    # Named by their content, and only where there are any: the key of all others stays.
    "patches": True,
    "wheels_dir": True,
    "index": True,
    "source": {"upstream"},
}
# What makes a wheel, of the build settings; the rest makes the environment around it.
_WHEEL = {"python", "target", "torch_backend", "wheels", "base", "env", "submodules"}
OFFLINE = {"UV_OFFLINE": "1", "UV_PYTHON_DOWNLOADS": "never", "PIP_NO_INDEX": "1"}
"""Of a build that asks no index: neither uv nor pip looks beyond this host."""
BUILD = "build"
"""The step's name."""
SHIM = "deployctl"
"""The installer's name of a dist-info that only lends the name `vllm`."""


def environment_key(wanted: Deployment, answers: Answers) -> str:
    """The name of the wanted environment, from everything that makes it. Pure; `Unanswered`
    where a moving ref could not be resolved, or the host's GPUs are not known.

    What may still serve is never built over: after an environment that was damaged comes another
    one of the next generation, ``KEY-2``, beside it.
    """
    key, releases = _first_key(wanted, answers), answers[RELEASES]
    for name, seal in releases["environments"].items():
        if seal is not None and _generation(name, key):
            return str(name)
    damaged = max((_generation(name, key) for name in releases["broken"]), default=0)
    return f"{key}-{damaged + 1}" if damaged else key


def damage_before(wanted: Deployment, answers: Answers) -> list[str]:
    """What was found wrong with earlier generations of the wanted environment."""
    key = _first_key(wanted, answers)
    broken = answers[RELEASES]["broken"].items()
    return [str(text) for name, why in broken if _generation(name, key) for text in why]


def _generation(name: str, key: str) -> int:
    """Which generation of an environment a name stands for; 0 where it is another one's."""
    first, _, number = name.partition("-")
    if first != key:
        return 0
    return int(number) if number.isdigit() else 1


def _first_key(wanted: Deployment, answers: Answers) -> str:
    build = wanted.profile.build
    identity: dict[str, Any] = build.model_dump(exclude=_NOT_BUILT)
    if build.source.release is None:
        identity["resolved"] = answers[SOURCE]["identity"]
        if is_git(build.source) and build.target == "cuda":
            identity["capabilities"] = capabilities(answers[TOOLS])
    if build.patches:
        identity["patches"] = patches.identity(build)
    if build.wheels_dir is not None:
        identity["wheels_dir"] = [build.wheels_dir, build.index]
    return digest(identity, 16)


def capabilities(tools: Tools) -> list[str]:
    """The compute capabilities to build for; `Unanswered` where the driver does not say."""
    found = tools["capabilities"]
    if found is None:
        raise Unanswered("tools: the GPU driver does not report the compute capability")
    return list(found)


def wheel_key(build: BuildSettings, identity: str, strategy: str, tools: Tools) -> str:
    """The name of a built wheel: commit, Python, torch, CUDA, architectures, settings."""
    return digest(
        {
            "source": identity,
            "settings": build.model_dump(include=_WHEEL),
            "binaries": strategy if strategy == "precompiled" else "source",
            "machine": tools["machine"],
            "libc": tools["libc"],
            "nvcc": tools["nvcc_version"] if build.target == "cuda" else None,
            "capabilities": tools["capabilities"] if build.target == "cuda" else None,
        },
        16,
    )


def is_git(source: SourceSettings) -> bool:
    """Whether a source is built from a repository rather than installed as it is."""
    return source.pr is not None or source.ref is not None or source.path is not None


def moves(source: SourceSettings) -> bool:
    """Whether a source is a name in somebody's repository, which may be moved at any time; a
    checkout is each host's own."""
    return source.pr is not None or source.ref is not None


def describe(source: SourceSettings, resolved: ResolvedSource | None) -> str:
    """A source as people name it."""
    if source.release is not None:
        return f"{source.distribution} {source.release}"
    if source.wheel is not None:
        return f"wheel {source.wheel}"
    commit = resolved and resolved["commit"]
    at = f" at {commit[:12]}" if commit else ""
    if source.pr is not None:
        return f"pull request {source.pr}{at}"
    return f"{source.ref or source.path}{at}"


def job_id(key: str) -> str:
    """The one job that may fill an environment: whoever asks for the same one attaches to it."""
    return f"build-{key}"


def repository(url: str) -> str:
    """Where a repository is kept on the host; builds share what was fetched."""
    return f"@/sources/{digest(url)}.git"


def origin(source: SourceSettings, resolved: ResolvedSource, submodules: bool) -> Origin:
    """The git source as the recipes take it."""
    commit = resolved["commit"]
    assert commit is not None, "a git source has a commit"
    if source.path is not None:
        return Origin(commit, source.path, checkout=True)
    return Origin(
        commit=commit,
        repository=repository(source.url),
        url=source.url,
        ref=resolved["ref"] or "",
        upstream=source.url if source.pr is not None else source.upstream,
        submodules=submodules,
    )


def sealed(answers: Answers, key: str) -> dict[str, Any] | None:
    """The seal of an environment; None where it is not there or was never proven whole."""
    seal: dict[str, Any] | None = answers[RELEASES]["environments"].get(key)
    return seal


def asks_for_user(build: BuildSettings) -> bool:
    """Whether the build may run as another user than the agent's: it runs code of a repository, or
    the profile says so."""
    return build.user is not None or is_git(build.source)


def confinement(profile: Profile, answers: Answers) -> Confinement | None:
    """To whom the build's code is confined; None where it runs as the agent's user."""
    build = profile.build
    user = answers[BUILD_USER]["user"] if asks_for_user(build) else None
    if user is None:
        return None
    models = [profile.model, *([profile.drafter.model] if profile.drafter else [])]
    paths = [model.path for model in models if model is not None and model.path]
    return Confinement(
        user,
        cache(build.source),
        tuple(paths),
        tuple(value for value in build.env.values() if value.startswith("/")),
    )


def cache(source: SourceSettings) -> str:
    """The name of a source's own caches: what another one's code left is never installed."""
    return digest(source.model_dump(include={"url", "pr", "ref", "path", "wheel"}), 16)


def wish(build: BuildSettings, key: str, confinement: Confinement | None = None) -> Wish:
    """The build settings as the recipes take them."""
    return Wish(
        confinement=confinement,
        key=key,
        python=build.python,
        target=build.target,
        distribution=build.source.distribution,
        torch_backend=build.torch_backend,
        wheels=tuple(build.wheels),
        overrides=tuple(build.overrides),
        extra=tuple(build.extra),
        env={**(OFFLINE if build.index == "none" else {}), **build.env},
        patches=tuple(patch.name for patch in patches.read(build)),
        wheels_dir=build.wheels_dir,
        index=build.index != "none",
        compile_bytecode=build.compile_bytecode,
        base=build.base,
    )


def imports(context: Context, extensions: Sequence[str]) -> Imports:
    """What importing vllm and these modules shows, as the user who built it; raises
    `RemoteError`."""
    profile, key = context.wanted.profile, context.release.environment_key
    made = wish(profile.build, key, confinement(profile, context.answers))
    reader = recipes.confined_reader(made)
    confined: Confined | None = None
    if reader is not None:
        confined = {"argv": reader["argv"], "env": reader["env"]}
    return context.session.call(
        environment.imports,
        environment=context.release.environment,
        extensions=list(extensions),
        confined=confined,
    )


def complete(context: Context, deep: bool = False) -> Installed:
    """What the environment of a release holds, against its base where it was linked from one."""
    base = context.wanted.profile.build.base
    return context.session.call(
        environment.complete, environment=context.release.environment, deep=deep, base=base
    )
