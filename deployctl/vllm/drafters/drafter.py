"""A drafter's config.json as wanted state: upstream's text, plus what a profile wants changed.

Two dialects exist. z-lab's counts the target's layers from `dflash_config.target_layer_ids`,
speculators' from `aux_hidden_state_layer_ids`, whose numbers are one higher for the same layers
(vLLM subtracts it, PR #40727). They are distinguished here and never converted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from deployctl.vllm import json_text
from deployctl.vllm.drafters import jsonedit

Dialect = Literal["z-lab", "speculators", "none"]

TWINS = (
    ("block_size", "dflash_config.block_size"),
    ("mask_token_id", "dflash_config.mask_token_id"),
    ("target_layer_ids", "dflash_config.target_layer_ids"),
    ("sliding_window", "dflash_config.swa_window_size"),
)
"""Keys that files in the field carry at either place, or at both: the copies must agree."""
NESTED = ("mask_token_id", "target_layer_ids")
"""Of these, vLLM reads the nested copy only; a new one goes there."""


BODY = "transformer_layer_config"
"""Where speculators' dialect keeps what the other has at the top."""


class DrafterConfigError(ValueError):
    """The wanted config cannot be made; the message says why and what to write instead."""


@dataclass(frozen=True)
class ChangedKey:
    """One key that the wanted config has otherwise than upstream's; `old` None where absent."""

    key: str
    old: Any
    new: Any


@dataclass(frozen=True)
class Desired:
    """The wanted config.json: its whole text, and what differs from upstream."""

    text: str
    changed: tuple[ChangedKey, ...]

    @property
    def config(self) -> dict[str, Any]:
        return parse(self.text)


def parse(text: str) -> dict[str, Any]:
    """A config.json's object; raises `DrafterConfigError` for an invalid one."""
    try:
        found = json_text.parsed(text)
    except ValueError as error:
        raise DrafterConfigError(f"config.json is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise DrafterConfigError("config.json holds no object")
    return found


def dialect(config: Mapping[str, Any]) -> Dialect:
    """Which way of naming the target's layers a config uses."""
    if "aux_hidden_state_layer_ids" in config or "speculators_model_type" in config:
        return "speculators"
    nested = config.get("dflash_config")
    if "target_layer_ids" in config or isinstance(nested, Mapping):
        return "z-lab"
    return "none"


def homes(config: Mapping[str, Any], path: str) -> list[str]:
    """Where a wanted key is written: each place where the file already has it, else one."""
    pair = next((pair for pair in TWINS if path in pair), None)
    spoken = dialect(config)
    # speculators' files keep the model's own keys one level down.
    inner = [f"{BODY}.{path}"] if spoken == "speculators" and "." not in path else []
    present = [place for place in (*(pair or (path,)), *inner) if _has(config, place)]
    if present:
        return present
    if pair is not None and pair[0] in NESTED and spoken != "speculators":
        return [pair[1]]
    return [path]


def desired(upstream: str, overrides: Mapping[str, Any]) -> Desired:
    """Upstream's text with a profile's overrides, every other byte as it was.

    Raises `DrafterConfigError` where the overrides speak the other dialect than the file, or a
    key path leads through something that is not an object.
    """
    config = parse(upstream)
    text = upstream
    changed = []
    given: dict[str, Any] = {}
    for path, value in jsonedit.flatten(overrides).items():
        _refuse_other_dialect(config, path)
        for place in homes(config, path):
            if place in given:
                if not same(given[place], value):
                    raise DrafterConfigError(
                        f"{path}: {place} is wanted as {given[place]} and as {value}; give it once"
                    )
                continue
            given[place] = value
            old = _value(config, place)
            if _has(config, place) and same(old, value):
                continue
            try:
                text = jsonedit.put(text, place, value)
            except jsonedit.NotAnObject as error:
                raise DrafterConfigError(f"{place}: {error}") from error
            changed.append(ChangedKey(place, old, value))
    return Desired(text, tuple(changed))


def differences(actual: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The keys of a config in use that differ from a profile's overrides: key, actual, wanted."""
    found = []
    for path, value in jsonedit.flatten(wanted).items():
        for place in homes(actual, path):
            if not _has(actual, place) or not same(_value(actual, place), value):
                found.append({"key": place, "actual": _value(actual, place), "wanted": value})
    return found


def config_changes(actual: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[ChangedKey]:
    """Every key in which a whole config differs from the wanted one, nested ones by path."""
    have, want = jsonedit.flatten(actual), jsonedit.flatten(wanted)
    return [
        ChangedKey(key, have.get(key), want.get(key))
        for key in [*want, *(k for k in have if k not in want)]
        if (key in have) != (key in want) or not same(have.get(key), want.get(key))
    ]


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: true is not 1, and 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    return bool(one == other)


def _has(config: Mapping[str, Any], path: str) -> bool:
    try:
        jsonedit.look(config, path)
    except KeyError:
        return False
    return True


def _value(config: Mapping[str, Any], path: str) -> Any:
    try:
        return jsonedit.look(config, path)
    except KeyError:
        return None


def _refuse_other_dialect(config: Mapping[str, Any], path: str) -> None:
    leaf = path.rsplit(".", 1)[-1]
    spoken = dialect(config)
    if leaf == "target_layer_ids" and spoken == "speculators":
        raise DrafterConfigError(
            f"{path}: this file is in speculators' dialect; "
            "set aux_hidden_state_layer_ids instead, whose numbers are one higher"
        )
    if leaf == "aux_hidden_state_layer_ids" and spoken == "z-lab":
        raise DrafterConfigError(
            f"{path}: this file is in z-lab's dialect; "
            "set dflash_config.target_layer_ids instead, whose numbers are one lower"
        )
