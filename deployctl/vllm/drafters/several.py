"""Several drafters for one target: vLLM runs one of them, and which one must be named.

Its SpeculativeConfig holds one model and one method. It reads the config.json of the folder that is
named and of none below it, and of several proposal methods in speculators' dialect the first
(config/speculative.py, transformers_utils/configs/speculators/base.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deployctl.vllm.drafters import methods
from deployctl.vllm.drafters.drafter_verdicts import Check

Found = Mapping[str, Mapping[str, Any]]
"""Configs in a folder by the name of the folder that holds each; "" is the folder's own."""


@dataclass(frozen=True)
class Choice:
    """Which config of a folder is judged (`name` None: it must be named), and why."""

    name: str | None
    why: Check | None = None


def choice(found: Found, method: str | None) -> Choice:
    """Choose among the configs of a folder; its own is the one that vLLM reads."""
    by_name = {name: methods.named(config) for name, config in found.items() if name}
    drafters = {name: known for name, known in by_name.items() if known}
    if "" in found:
        said = (
            f"judged: the folder's own config.json, as vLLM does; drafters below: {_list(drafters)}"
        )
        return Choice("", Check("drafter", "ok", said) if drafters else None)
    rest = drafters or by_name
    why = "the only drafter there"
    if method is not None and len(by_name) > 1:
        wanted = methods.canonical(method)
        matching = {name: known for name, known in by_name.items() if wanted in known}
        rest = matching or {name: known for name, known in by_name.items() if not known}
        why = f"the only one there for {method}"
    if len(rest) != 1:
        said = f"it has no config.json, and in folders below: {_list(by_name)}"
        return Choice(None, Check("drafter", "error", said))
    (name,) = rest
    said = f"judged: {name}, {why}; vLLM must be given that folder, not the one above"
    return Choice(name, Check("drafter", "warning", said))


def _list(known: Mapping[str, tuple[str, ...]]) -> str:
    return ", ".join(f"{name} ({' or '.join(of) or 'unknown'})" for name, of in known.items())


def method_of(config: Mapping[str, Any], given: str | None) -> str | Check:
    """The method that a config is judged for; a check that says why there is none."""
    found = (given,) if given else methods.named(config)
    if len(found) == 1 and found[0]:
        return found[0]
    if found:
        said = f"the config names drafters for several methods, {' and '.join(map(str, found))}"
    else:
        said = "which method it is for does not follow from the file"
    return Check("method", "unknown", f"{said}: name one with --method")


def proposals(config: Mapping[str, Any]) -> Iterator[Check]:
    """Several proposal methods in one drafter of speculators' dialect."""
    said = config.get("speculators_config")
    given = said.get("proposal_methods") if isinstance(said, Mapping) else None
    if not isinstance(said, Mapping) or not isinstance(given, list) or len(given) < 2:
        return
    names = [
        str(one.get("proposal_type")) if isinstance(one, Mapping) else "unknown" for one in given
    ]
    default = said.get("default_proposal_method")
    other = (
        "" if default in (None, names[0]) else f", whatever default_proposal_method {default} is"
    )
    text = f"proposal_methods has {', '.join(names)}: vLLM takes the first, {names[0]}{other}"
    yield Check("proposals", "warning", text)
