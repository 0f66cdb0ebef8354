"""Answers of the agent, of which a test says what matters: the rest is empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from deployctl.agent.wire import answers, builds, gpus, stored

SHAPES: dict[str, Any] = {
    "clean.links": gpus.Links,
    "drafter": stored.Model,
    "gpus": gpus.GpuState,
    "gpus.inside": gpus.GpuState,
    "holders": gpus.Holders,
    "holders.inside": gpus.Holders,
    "model": stored.Model,
    "port": answers.Listener,
    "preflight.cuda": gpus.Cuda,
    "preflight.disk": answers.Disk,
    "preflight.host": gpus.Passthrough,
    "preflight.node": gpus.Passthrough,
    "releases": answers.Releases,
    "source": builds.ResolvedSource,
    "tools": builds.Tools,
    "unit": answers.UnitState,
}
"""The types of answers by key, as in `steps.facts` and where the steps ask."""
EMPTY = {str: "", bool: False, int: 0, float: 0.0, type(None): None}


def whole(shape: Any, value: Any = None) -> Any:
    """A value of a wire's type with what it lacks filled in."""
    origin, inner = get_origin(shape), get_args(shape)
    if is_typeddict(shape):
        if value is not None and not isinstance(value, Mapping):
            return value
        given, hints = value or {}, get_type_hints(shape)
        names = shape.__required_keys__ | given.keys()
        return {n: whole(hints[n], given.get(n)) if n in hints else given[n] for n in names}
    if origin is Union:
        real = next((one for one in inner if one is not type(None)), None)
        return None if value is None else whole(real, value)
    if origin is list:
        return [whole(inner[0], one) for one in value or ()]
    if origin is dict:
        return {name: whole(inner[1], one) for name, one in (value or {}).items()}
    return EMPTY.get(shape) if value is None else value


def whole_answers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Answers by key, each whole."""
    return {k: whole(SHAPES[k], v) if k in SHAPES else v for k, v in values.items()}
