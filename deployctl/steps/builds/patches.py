"""Patch files of a profile, as they lie on this machine: their texts, and what they change."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deployctl.config.build import BuildSettings
from deployctl.steps.interface import Unanswered
from deployctl.vllm.builds.sources import compiled_changes

CHANGED = re.compile(r"^(?:\+\+\+ b/|--- a/|rename to |rename from )(\S+)", re.M)
LARGEST = 16 << 20
"""Bytes of a patch file."""


@dataclass(frozen=True)
class Patch:
    """One patch file."""

    name: str
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def paths(self) -> list[str]:
        """The files that it changes, as git names them."""
        return sorted(set(CHANGED.findall(self.text)))

    def document(self) -> dict[str, str]:
        """As evidence."""
        return {"name": self.name, "sha256": self.sha256}


@functools.cache
def _read(path: str, changed: int) -> Patch:
    data = Path(path).read_bytes()
    if len(data) > LARGEST:
        raise Unanswered(f"build.patches: {path} has more than {LARGEST >> 20} MiB")
    try:
        return Patch(Path(path).name, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Unanswered(f"build.patches: {path} is not UTF-8: {error.reason}") from error


def read(build: BuildSettings) -> list[Patch]:
    """The profile's patches; raises `Unanswered` for one that cannot be read here."""
    found = []
    for path in build.patches:
        try:
            found.append(_read(path, Path(path).stat().st_mtime_ns))
        except OSError as error:
            raise Unanswered(f"build.patches: {path}: {error.strerror}") from error
    return found


def identity(build: BuildSettings) -> list[str]:
    """What names the patches in an environment's key: their contents, in order."""
    return [patch.sha256 for patch in read(build)]


def objection(patches: Sequence[Patch]) -> str:
    """Why patches cannot be applied to an installation; empty where they may."""
    for patch in patches:
        compiled = compiled_changes(patch.paths)
        if compiled:
            return (
                f"{patch.name} changes {compiled[0]}, which is compiled: commit it and build that "
                "(build.source: {ref: …}, or path:)"
            )
        if not any(path.startswith("vllm/") for path in patch.paths):
            return f"{patch.name} changes no file below vllm/; write it with git diff"
    return ""
