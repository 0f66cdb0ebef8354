"""Models of a Hugging Face hub, as this host reaches it: which commit, which files, whether we may.

Standard library alone. The endpoint is HF_ENDPOINT's, as for huggingface_hub.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Dict, List, Optional
from urllib.parse import quote

from ..core.interface import Call
from ..wire.stored import ConfigFile, HubFile, Model
from . import models

if TYPE_CHECKING:
    from urllib.error import HTTPError

ENDPOINT = "https://huggingface.co"
TIMEOUT = 15.0
COMMIT = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")
ANSWER_LIMIT = 8 << 20
MOST_FILES = 10_000
LARGEST = 1 << 50
"""Bytes: beyond any file of a model."""


class Refused(Exception):
    """The hub does not give what is asked; `kind`: gated, missing, denied, unreachable, or
    invalid for an answer that no hub of good will gives."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def survey(
    call: Call,
    repo: str,
    revision: Optional[str] = None,
    endpoint: Optional[str] = None,
    token: Optional[str] = None,
    tensors: bool = False,
    always: bool = False,
) -> Model:
    """A repository's model as `models.survey` tells it, and what the hub says about it.

    More keys: `commit`; `remote`, the files to fetch with `size` and `sha256` (None for small
    ones); `error` with `kind` and `message`. A whole copy of a pinned commit needs no network,
    unless the hub is `always` to be asked.
    """
    given = COMMIT.fullmatch(revision or "")
    if given and not always:
        kept = models.survey(call, place(repo, str(revision)), tensors)
        if kept["exists"] and not kept["damaged"]:
            kept["commit"] = revision
            return kept
    hub = Hub(endpoint, token)
    try:
        told = hub.model(repo, revision or "main")
        commit, remote = str(told["sha"]), listing(repo, told)
        if given and commit != revision:
            raise Refused("invalid", "%s: asked for %s, got %s" % (repo, revision, commit))
        config = hub.config(repo, commit)
    except Refused as refused:
        absent = models.survey(call, place(repo, str(revision) if given else "unknown"))
        absent["commit"] = revision if given else None
        absent["error"] = {"kind": refused.kind, "message": str(refused)}
        return absent
    answer = models.survey(call, place(repo, commit), tensors)
    if answer["config"] is None:
        answer["config"] = config
    answer["commit"], answer["remote"] = commit, remote
    return answer


def place(repo: str, commit: str) -> str:
    """The folder of a repository's commit on this host."""
    return "@/models/%s-%s" % (repo.replace("/", "--"), commit[:12])


def listing(repo: str, told: Dict[str, Any]) -> List[HubFile]:
    """The files of a hub's record (`siblings`), each with `name`, `size` and `sha256`; `Refused`
    for a name that leads out of the model's folder, and for an invalid size or digest."""
    entries = told.get("siblings")
    if not isinstance(entries, list) or len(entries) > MOST_FILES:
        raise Refused("invalid", "%s: the hub gave no usable list of files" % repo)
    return [_file(repo, entry) for entry in entries]


def _file(repo: str, entry: Any) -> HubFile:
    entry = entry if isinstance(entry, dict) else {}
    name, size, lfs = entry.get("rfilename"), entry.get("size"), entry.get("lfs")
    sha256 = lfs.get("sha256") if isinstance(lfs, dict) else None
    if not isinstance(name, str) or not inside(name):
        said = "%s: the hub lists a file named %s, which is not a relative name"
        raise Refused("invalid", said % (repo, ascii(name)[:200]))
    if size is not None and not (type(size) is int and 0 <= size < LARGEST):
        raise Refused("invalid", "%s: the hub gives no size of %s" % (repo, name))
    if sha256 is not None and not (isinstance(sha256, str) and SHA256.fullmatch(sha256)):
        raise Refused("invalid", "%s: the hub gives no SHA-256 of %s" % (repo, name))
    return {"name": name, "size": size, "sha256": sha256}


def inside(name: str) -> bool:
    """Whether a name leads to a file below the folder that it is meant for."""
    parts = name.split("/")
    return name.isprintable() and "\\" not in name and not {"", ".", ".."}.intersection(parts)


class Hub:
    """Asks one hub; a token is never sent on to where a redirect leads."""

    def __init__(self, endpoint: Optional[str], token: Optional[str]) -> None:
        self.endpoint = (endpoint or os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
        self.token = token or os.environ.get("HF_TOKEN")

    def model(self, repo: str, revision: str) -> Dict[str, Any]:
        """The hub's record of a revision: commit, files, sizes."""
        quoted = quote(revision, safe="")
        data = self._get("/api/models/%s/revision/%s?blobs=true" % (repo, quoted), repo, revision)
        try:
            told = json.loads(data)
            commit = told["sha"]
        except models.MALFORMED as error:
            raise Refused("unreachable", "%s gave no answer of a hub" % self.endpoint) from error
        if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
            raise Refused("invalid", "%s: the hub names no commit for %s" % (repo, revision))
        return dict(told)

    def config(self, repo: str, commit: str) -> Optional[ConfigFile]:
        """config.json, which only somebody with access is given."""
        try:
            data = self._get("/%s/resolve/%s/config.json" % (repo, commit), repo, commit)
        except Refused as refused:
            if refused.kind == "missing":
                return None
            raise
        if len(data) > models.CONFIG_LIMIT:
            raise Refused("invalid", "%s: config.json is too big" % repo)
        return models.config_of(data)

    def _get(self, path: str, repo: str, revision: str) -> bytes:
        import urllib.error  # slow to import
        import urllib.request
        from http.client import HTTPException

        request = urllib.request.Request(self.endpoint + path)
        if self.token:
            request.add_unredirected_header("Authorization", "Bearer " + self.token)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                data: bytes = answer.read(ANSWER_LIMIT + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error, repo, revision) from error
        except (OSError, ValueError, HTTPException) as error:
            reason = str(getattr(error, "reason", error)).strip() or type(error).__name__
            raise Refused("unreachable", "%s: %s" % (self.endpoint, reason)) from error
        if len(data) > ANSWER_LIMIT:
            raise Refused("invalid", "%s: the hub's answer is too big" % repo)
        return data

    def _refusal(self, error: HTTPError, repo: str, revision: str) -> Refused:
        """The hub says why in X-Error-Code (huggingface_hub, utils/_http.py)."""
        code = error.headers.get("X-Error-Code", "")
        with_token = "this token" if self.token else "no token"
        if code == "GatedRepo":
            return Refused("gated", "%s is gated, and %s has access" % (repo, with_token))
        if code == "RevisionNotFound":
            return Refused("missing", "%s has no revision %s" % (repo, revision))
        if code == "EntryNotFound":
            return Refused("missing", "%s has no such file at %s" % (repo, revision))
        if error.code in (401, 403, 404):
            kind = "missing" if code == "RepoNotFound" or error.code == 404 else "denied"
            said = "%s does not exist or is private, asked with %s" % (repo, with_token)
            return Refused(kind, said)
        return Refused("unreachable", "%s: HTTP %d" % (self.endpoint, error.code))


OPERATIONS = (survey,)
