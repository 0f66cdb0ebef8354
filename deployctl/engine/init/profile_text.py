"""A commented profile of a server that somebody starts by hand. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deployctl.config.secrets import exposed
from deployctl.config.yamltext import scalar
from deployctl.engine.init.given import Given
from deployctl.errors import UsageError
from deployctl.vllm.serving.arguments import Arguments, NotUnderstood, parse

PORT = 8000
"""vLLM's own default."""
RELEASE = "0.33.0"
"""Taken where nothing names a version."""
OWN = {
    "host": ("host", str),
    "port": ("port", int),
    "tensor-parallel-size": ("tensor_parallel_size", int),
    "max-model-len": ("max_model_len", "tokens"),
    "gpu-memory-utilization": ("gpu_memory_utilization", float),
    "dtype": ("dtype", str),
    "kv-cache-dtype": ("kv_cache_dtype", str),
    "attention-backend": ("attention_backend", str),
}
"""vLLM's options that a profile has as settings of its own: the key, and how it is read."""
ELSEWHERE = {"served-model-name", "revision", "api-key", "speculative-config"}
TOKENS = "num_speculative_tokens"
WITHOUT_MODEL = {"ngram", "mtp", "suffix"}


@dataclass(frozen=True)
class Draft:
    """A profile's text, and what a person must look at."""

    name: str
    text: str
    arguments: Arguments
    notes: list[str] = field(default_factory=list)


def draft(
    given: Given, name: str | None, host: str, source: str, by: str = "`deployctl init`"
) -> Draft:
    """The profile under which `up` starts the server of `given`; raises `UsageError`."""
    try:
        arguments = parse(given.argv)
    except NotUnderstood as error:
        raise UsageError(f"{source}: {error}", next="correct the command line") from error
    if arguments.model is None:
        raise UsageError(f"{source}: no model is named", next="vllm serve MODEL …")
    notes = list(given.notes)
    served = _served_name(arguments, notes)
    chosen = name or label(served)
    sections = [
        f"# Written by {by} from: {_one_line(source)}",
        *(f"# {line}" for line in given.remarks),
        f"name: {chosen}",
        "",
        f"hosts: [{scalar(host)}]",
        "",
        "model:",
        *_indented(_model(arguments, served)),
        *_drafter(given, arguments, notes),
        "",
        "build:",
        *_indented(_build(given, notes)),
        "",
        "serve:",
        *_indented(_serve(given, arguments, notes)),
        "",
        "smoke:",
        "  requests:                       # asked before a release may serve; add your own",
        "    - name: answers",
        "      prompt: Write one sentence about the sea.",
        "      max_tokens: 64",
    ]
    return Draft(chosen, "\n".join(sections) + "\n", arguments, notes)


def _served_name(arguments: Arguments, notes: list[str]) -> str:
    names = arguments.options.get("served-model-name")
    if isinstance(names, list):
        if len(names) > 1:
            notes.append(f"one served name is kept, {names[0]}; left out: {', '.join(names[1:])}")
        return names[0]
    # vLLM answers to the model's own name, which for a path is the path.
    return str(arguments.model)


def _model(arguments: Arguments, served: str) -> Iterator[str]:
    yield from _source(str(arguments.model), arguments.one("revision"))
    yield f"served_name: {scalar(served)}"


def _source(model: str, revision: str | None = None) -> Iterator[str]:
    if model.startswith(("/", "~", "./", "../")):
        yield f"path: {scalar(model)}"
        return
    yield f"repo: {scalar(model)}"
    if revision:
        yield f"revision: {scalar(revision)}"


def _drafter(given: Given, arguments: Arguments, notes: list[str]) -> Iterator[str]:
    text = arguments.one("speculative-config")
    if text is None:
        return
    try:
        config = json.loads(text)
    except ValueError:
        config = None
    if not isinstance(config, dict):
        raise UsageError(f"--speculative-config is not a JSON object: {text[:80]}")
    method, model = config.pop("method", None), config.pop("model", None)
    tokens, revision = config.pop("num_speculative_tokens", None), config.pop("revision", None)
    if method is None:
        method = "draft_model" if model else "ngram"
        notes.append(f"no drafting method is named: {method} is written, vLLM would infer it")
    if tokens is None:
        tokens = 1
        notes.append("no num_speculative_tokens is named: 1 is written")
    yield from ("", "drafter:", f"  method: {scalar(method)}")
    if model and method not in WITHOUT_MODEL:
        yield from ("  model:", *(f"    {line}" for line in _source(str(model), revision)))
    elif model:
        config["model"] = model
    yield _reasoned(f"  {TOKENS}: {scalar(tokens)}", TOKENS, given)
    if config:
        yield "  speculative:"
        yield from (f"    {key}: {json.dumps(value)}" for key, value in config.items())


def _build(given: Given, notes: list[str]) -> Iterator[str]:
    if given.build:
        yield from given.build
        return
    tag = re.search(r":v(\d+\.\d+\.\d+(?:\.post\d+)?)(?:[-_].*)?$", given.image or "")
    if tag:
        yield f'source: {{release: "{tag[1]}"}}      # the version of image {given.image}'
        return
    yield f'source: {{release: "{RELEASE}"}}      # set the version that you run'
    notes.append(f"the version of vLLM is not named: {RELEASE} is written")


def _serve(given: Given, arguments: Arguments, notes: list[str]) -> Iterator[str]:
    env = dict(given.env)
    visible = env.pop("CUDA_VISIBLE_DEVICES", None)
    gpus = given.gpus if given.gpus is not None else _gpus(visible)
    if "port" not in arguments.options:
        yield f"port: {PORT}                      # vLLM's default"
    if "host" not in arguments.options:
        yield 'host: "0.0.0.0"                 # vLLM\'s default: every address of the host'
    if gpus is not None:
        yield f"gpus: {json.dumps(list(gpus))}"
    elif visible is not None:
        env["CUDA_VISIBLE_DEVICES"] = visible
    further: dict[str, bool | list[str]] = {}
    for name, value in arguments.options.items():
        if name in OWN and isinstance(value, list) and len(value) == 1:
            key, kind = OWN[name]
            yield _reasoned(f"{key}: {scalar(_read(value[0], kind, name))}", key, given)
        elif name not in ELSEWHERE:
            further[name] = value
    if further:
        yield "args:"
        for name, value in further.items():
            yield _reasoned(f"  {name}: {_argument(value)}", name, given)
    keyed = "api-key" in arguments.options or "VLLM_API_KEY" in given.secrets
    others = [one for one in given.secrets if not (keyed and one == "VLLM_API_KEY")]
    yield from _variables(env, others, notes)
    if keyed:
        yield "api_key: {env: VLLM_API_KEY}   # the key itself belongs in no file: export it"
        notes.append("the API key is not written: set VLLM_API_KEY where deployctl runs")


def _variables(env: Mapping[str, str], named: Sequence[str], notes: list[str]) -> Iterator[str]:
    secret = set(exposed(env)) | ({"VLLM_API_KEY"} & set(env)) | set(named)
    plain = {name: value for name, value in env.items() if name not in secret}
    if plain:
        yield "env:"
        yield from (f"  {name}: {json.dumps(value)}" for name, value in plain.items())
    if secret:
        yield "secrets:                        # read from deployctl's own environment"
        yield from (f"  {name}: {{env: {name}}}" for name in sorted(secret))
        notes.append(
            f"secrets are not written: set {', '.join(sorted(secret))} where deployctl runs"
        )


def _reasoned(line: str, key: str, given: Given) -> str:
    """A line with why, where that is known."""
    reason = given.reasons.get(key)
    return f"{line:<30}  # {_one_line(reason)}" if reason else line


def _gpus(visible: str | None) -> list[int] | None:
    parts = [part.strip() for part in (visible or "").split(",") if part.strip()]
    return [int(part) for part in parts] if parts and all(p.isdecimal() for p in parts) else None


def _argument(value: bool | list[str]) -> str:
    if isinstance(value, bool):
        return scalar(value)
    return json.dumps(value[0]) if len(value) == 1 else json.dumps(value)


def tokens(text: str) -> int:
    """A number of tokens as vLLM reads it: `32k` in 1,000s, `32K` in 1,024s; raises ValueError."""
    unit = {"k": 10**3, "m": 10**6, "K": 2**10, "M": 2**20}.get(text[-1:], 1)
    return int(float(text.rstrip("kKmM")) * unit)


def _read(text: str, kind: Any, name: str) -> Any:
    """A value as the setting's type."""
    try:
        return tokens(text) if kind == "tokens" else kind(text)
    except ValueError as error:
        raise UsageError(f"--{name} {text!r} is not understood", str(error)) from error


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def label(text: str) -> str:
    """A profile's name from a served name: its last part, in the letters that a name has."""
    name = re.sub(r"[^a-z0-9._-]+", "-", text.rstrip("/").rpartition("/")[2].lower())
    return name.strip("-._")[:63] or "server"


def _one_line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 90 else words[:87] + "…"
