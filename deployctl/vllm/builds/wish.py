"""What a recipe must know: of a profile's build settings, and of where its source lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Confinement:
    """The user as whom code of others runs in a build, what it must not see, and what it may."""

    user: str
    cache: str
    """The name of the source's own caches, which outlive a build."""
    hidden: Sequence[str] = ()
    shown: Sequence[str] = ()


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
    base: str | None = None
    """The environment whose hard-linked copy is filled, for `in-place`."""
    patches: Sequence[str] = ()
    """Names of patch files that lie in `patch_folder`."""
    wheels_dir: str | None = None
    index: bool = True
    """Whether an index may be asked."""
    confinement: Confinement | None = None
    """None where the agent's own user builds."""

    @property
    def environment(self) -> str:
        return f"@/environments/{self.key}"

    @property
    def work(self) -> str:
        """What a build needs beside the environment: overrides, offered wheels, sources."""
        return f"@/builds/{self.key}"

    @property
    def tree(self) -> str:
        """The working tree that is built."""
        return f"{self.work}/source"

    @property
    def patch_files(self) -> list[str]:
        """Where the patches lie, in their order."""
        return [f"{self.work}/patches/{i:02}-{name}" for i, name in enumerate(self.patches)]

    @property
    def interpreter(self) -> str:
        return f"{self.environment}/bin/python"

    @property
    def overrides_file(self) -> str:
        return f"{self.work}/overrides.txt"

    @property
    def overrides_text(self) -> str:
        """The contents of the file for `uv --override`."""
        return "".join(f"{line}\n" for line in self.overrides)


@dataclass(frozen=True)
class Origin:
    """A git source: a repository that is fetched (or a checkout on the host), and its commit."""

    commit: str
    repository: str
    """Where it is fetched to, or the checkout itself."""
    url: str = ""
    ref: str = ""
    upstream: str = ""
    submodules: bool = True
    checkout: bool = False
