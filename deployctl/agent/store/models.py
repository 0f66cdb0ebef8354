"""Models on this host: what lies in a folder, whether it is whole, and a release's view of it."""

from __future__ import annotations

import hashlib
import os
import re
import struct
from typing import Any, Dict, List, Optional

from ..core.atomic_files import parse_object, relink, replacing
from ..core.interface import AgentError, Call
from ..core.regular_files import NotRegular, TooBig, digest, open_regular, read_bytes
from ..wire.stored import ConfigFile, Model, View
from .page_cache import read_ahead as read_ahead

CONFIG_LIMIT = 1 << 20
HEADER_LIMIT = 32 << 20
LARGEST = 1 << 62
"""Bytes of a JSON file or header of a model; those of the largest have about a tenth."""
MALFORMED = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What reading a JSON file runs into that is not of the form that it should have."""
MASK = re.compile(r"^[<\[]\|?_?mask_?\|?[>\]]$", re.IGNORECASE)


def survey(call: Call, path: str, tensors: bool = False) -> Model:
    """What lies in a model's folder.

    `files` are sizes in bytes by relative name, links followed; `config` is config.json's text
    and SHA-256, None where there is none; `damaged` names files that cannot be whole, with the
    reason; `mask_tokens` are the ids of the tokenizer's tokens that are named like a mask, None
    where it cannot be read; `tensors`, where asked for, are the shapes in the safetensors files.
    `commit`, `remote` and `error` are a hub's (`hub.survey`).
    """
    place = call.path(path)
    answer: Model = {
        "place": place,
        "exists": os.path.isdir(place),
        "files": {},
        "bytes": 0,
        "config": None,
        "damaged": {},
        "mask_tokens": None,
        "tensors": None,
        "commit": None,
        "remote": None,
        "error": None,
    }
    if not answer["exists"]:
        return answer
    shapes: Dict[str, List[int]] = {}
    for name in _files(place):
        full = os.path.join(place, name)
        try:
            size = os.stat(full).st_size
        except OSError as error:
            answer["damaged"][name] = error.strerror or str(error)
            continue
        answer["files"][name] = size
        answer["bytes"] += size
        if name.endswith(".safetensors"):
            _inspect(full, name, size, answer["damaged"], shapes)
    answer["damaged"].update(_missing_shards(place, answer["files"]))
    answer["config"] = read_config(os.path.join(place, "config.json"))
    answer["mask_tokens"] = _mask_tokens(os.path.join(place, "tokenizer_config.json"))
    if tensors:
        answer["tensors"] = shapes
    return answer


def checksums(call: Call, path: str, names: List[str]) -> Dict[str, Optional[str]]:
    """The SHA-256 of files in a model's folder by name; None where one cannot be read."""
    place = call.path(path)
    return {name: _sha256(call, os.path.join(place, name)) for name in names}


def _sha256(call: Call, path: str) -> Optional[str]:
    try:
        return str(digest(path, step=call.step).hexdigest())
    except OSError:
        return None


def _files(place: str) -> List[str]:
    """Files below a folder by relative name; hidden folders (a hub's own notes) left out."""
    found = []
    for directory, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [os.path.relpath(os.path.join(directory, name), place) for name in names]
    return sorted(found)


def _inspect(
    full: str, name: str, size: int, damaged: Dict[str, str], shapes: Dict[str, List[int]]
) -> None:
    """Compare a safetensors file's length with what its header promises.

    Format: 8 bytes little endian length, then a JSON header whose `data_offsets` count from its
    end (safetensors README).
    """
    try:
        with open_regular(full) as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = parse_object(file.read(min(length, HEADER_LIMIT)))
        header.pop("__metadata__", None)
        end = max((int(entry["data_offsets"][1]) for entry in header.values()), default=0)
        shapes.update({key: _shape(entry["shape"]) for key, entry in header.items()})
    except (OSError, struct.error, *MALFORMED) as error:
        damaged[name] = "its header cannot be read: %s" % error
        return
    if size != 8 + length + end:
        damaged[name] = "%d bytes, its header promises %d" % (size, 8 + length + end)


def _shape(found: List[Any]) -> List[int]:
    """A tensor's dimensions; raises ValueError where they are none."""
    if not all(type(size) is int and 0 <= size < LARGEST for size in found):
        raise ValueError("a shape has other values than whole numbers")
    return [int(size) for size in found]


def _missing_shards(place: str, files: Dict[str, int]) -> Dict[str, str]:
    """Shards that an index names and that are not there."""
    try:
        path = os.path.join(place, "model.safetensors.index.json")
        index = parse_object(read_bytes(path, HEADER_LIMIT))
        named = {str(name) for name in index["weight_map"].values()}
    except FileNotFoundError:
        return {}
    except (OSError, *MALFORMED) as error:
        return {"model.safetensors.index.json": "cannot be read: %s" % error}
    return dict.fromkeys(sorted(named - set(files)), "named by the index, not there")


def _mask_tokens(path: str) -> Optional[List[int]]:
    """`added_tokens_decoder` of a tokenizer_config.json maps ids to tokens (transformers)."""
    try:
        tokens = parse_object(read_bytes(path, HEADER_LIMIT))["added_tokens_decoder"]
        found = sorted(int(i) for i, t in tokens.items() if MASK.match(t["content"]))
        return found if all(abs(i) < LARGEST for i in found) else None
    except (OSError, *MALFORMED):
        return None


def read_config(path: str) -> Optional[ConfigFile]:
    """A config.json as text, digest, mode and link; None where there is none."""
    try:
        data = read_bytes(path, CONFIG_LIMIT)
    except FileNotFoundError:
        return None
    except (NotRegular, TooBig) as error:
        kind = "too-big" if isinstance(error, TooBig) else "not-a-file"
        raise AgentError(kind, str(error)) from error
    found = config_of(data)
    found["mode"] = os.stat(path).st_mode & 0o7777
    found["link"] = os.readlink(path) if os.path.islink(path) else None
    return found


def config_of(data: bytes) -> ConfigFile:
    """The text and SHA-256 of a config.json's bytes."""
    return {
        "text": data.decode("utf-8", "replace"),
        "sha256": hashlib.sha256(data).hexdigest(),
        "mode": None,
        "link": None,
    }


def view(call: Call, source: str, path: str) -> View:
    """Make a release's own view of a model: weights are links, config.json is a file.

    The config is the source's, byte for byte, where the view has none yet; one that is there
    stays. Entries that the source no longer has are removed.
    """
    origin, place = call.path(source), call.path(path)
    names = _files(origin)
    if "config.json" not in names:
        raise AgentError("no-config", "%s has no config.json" % origin)
    os.makedirs(place, mode=0o700, exist_ok=True)
    for name in _files(place):
        if name not in names:
            os.unlink(os.path.join(place, name))
    for name in names:
        if name != "config.json":
            _link(os.path.join(origin, name), os.path.join(place, name))
    _own_config(os.path.join(origin, "config.json"), os.path.join(place, "config.json"))
    return _described(place)


def _link(target: str, path: str) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    if os.path.islink(path) and os.readlink(path) == target:
        return
    relink(target, path)


def _own_config(origin: str, path: str) -> None:
    if os.path.exists(path) and not os.path.islink(path):
        return
    with replacing(path, 0o600) as file:
        file.write(read_bytes(origin, CONFIG_LIMIT))


def _described(place: str) -> View:
    links = {}
    broken = []
    for name in _files(place):
        full = os.path.join(place, name)
        if os.path.islink(full):
            links[name] = os.readlink(full)
            if not os.path.exists(full):
                broken.append(name)
    config = read_config(os.path.join(place, "config.json"))
    return {"place": place, "links": links, "broken": broken, "config": config}


def views(call: Call, profile: str, unit: str) -> Dict[str, View]:
    """The drafter views of a unit's releases, by release: links, broken ones, config."""
    releases = call.unit(profile, unit, "releases")
    found = {}
    for name in sorted(os.listdir(releases)) if os.path.isdir(releases) else []:
        if name.startswith("."):
            continue  # on its way out
        place = os.path.join(releases, name, "drafter")
        if os.path.isdir(place):
            found[name] = _described(place)
    return found


OPERATIONS = (read_ahead, survey, checksums, view, views)
