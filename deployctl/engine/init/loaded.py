"""A model as a running server loads it: a folder, or a snapshot in a cache of the Hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from deployctl.agent.wire.adoption import ByHand
from deployctl.hosts.operations import files
from deployctl.hosts.session import Session


@dataclass(frozen=True)
class Source:
    """A model as a server loads it: the name that it was given, and where that lies."""

    name: str
    folder: str | None
    revision: str | None
    config: dict[str, Any] | None

    @classmethod
    def of(cls, process: ByHand, name: str, session: Session, revision: str) -> Source:
        """A folder, by its path as the process sees it, or a snapshot in its Hub cache."""
        path = str(PurePosixPath(process["cwd"]) / name)
        config = _config(session, path)
        if config is not None or name.startswith(("/", "./", "../")):
            return cls(name, path, None, config)
        cache = f"{_cache(process['env'])}/models--{name.replace('/', '--')}"
        ref = session.call(files.read, path=f"{cache}/refs/{revision}")["text"]
        commit = (ref or revision).strip()
        folder = f"{cache}/snapshots/{commit}"
        config = _config(session, folder)
        return cls(name, folder if config else None, commit if config else None, config)

    @property
    def written(self) -> str:
        """As a profile has it: a repository's name, else the absolute path."""
        return self.name if self.revision or self.folder is None else self.folder

    def words(self, what: str) -> Iterator[str]:
        """What its config.json says, for a comment."""
        if self.config is None:
            yield f"{what}: {self.name} (its config.json was not found on the host)"
            return
        kinds = ", ".join(map(str, self.config.get("architectures") or ["unknown"]))
        length = self.config.get("max_position_embeddings")
        context = f", context {length}" if length else ""
        yield f"{what}: {self.folder}/config.json, {kinds}{context}"


def _cache(env: dict[str, str]) -> str:
    """Where huggingface_hub keeps what it downloads."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if name in env:
            return env[name]
    cache = env.get("XDG_CACHE_HOME") or f"{env.get('HOME', '/root')}/.cache"
    return f"{env.get('HF_HOME') or cache + '/huggingface'}/hub"


def _config(session: Session, folder: str) -> dict[str, Any] | None:
    text = session.call(files.read, path=f"{folder}/config.json")["text"]
    try:
        found = json.loads(text) if text is not None else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
