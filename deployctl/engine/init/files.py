"""A server's command line in a systemd unit, a Compose file or a recipe for DGX Spark."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from deployctl.engine.init import shell
from deployctl.engine.init.given import Given, nothing


def unit(text: str, source: str) -> Given:
    """A systemd unit (systemd.service(5)): ExecStart and Environment; raises `UsageError`."""
    env: dict[str, str] = {}
    notes: list[str] = []
    command = ""
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        key, equals, value = line.strip().partition("=")
        if not equals or key.startswith(("#", ";")):
            continue
        if key.strip() == "Environment":
            words = shlex.split(value.replace("%%", "%"))
            env |= dict(word.partition("=")[::2] for word in words)
        elif key.strip() == "EnvironmentFile":
            notes.append(f"variables of {value.strip().lstrip('-')} are not read")
        elif key.strip() == "ExecStart":
            # An empty one resets; a prefix such as `-` or `@` does not belong to the program.
            command = value.strip().lstrip("-@:+!|")
    words = [word.replace("$$", "$").replace("%%", "%") for word in shlex.split(command)]
    if len(words) > 2 and words[0].endswith("sh") and words[1] in ("-c", "-lc"):
        found: Given | None = shell.read(words[2], source)
    else:
        found = shell.of_words(words, env)
    if found is None:
        raise nothing(source, f"its ExecStart is: {command[:200] or 'missing'}")
    return _with(found, env, notes)


def compose(text: str, source: str) -> Given:
    """A Compose file: the first service whose image or command is vLLM's."""
    document = _yaml(text, source)
    services = document.get("services") or {}
    for name, service in services.items() if isinstance(services, dict) else ():
        if not isinstance(service, dict):
            continue
        words = [*_words(service.get("entrypoint")), *_words(service.get("command"))]
        image = str(service.get("image") or "")
        found = _of_service(words, image)
        if found is not None:
            env = {
                key: _default(value) for key, value in _pairs(service.get("environment")).items()
            }
            others = [other for other in services if other != name]
            notes = [f"service {name} was taken, not {', '.join(others)}"] if others else []
            return _with(found, env, notes, _devices(service))
    raise nothing(source, "no service has vLLM's image or runs `vllm serve`")


def recipe(text: str, source: str) -> Given:
    """A recipe of sparkrun or spark-vllm-docker: `command` with `{name}` filled from `defaults`."""
    document = _yaml(text, source)
    command = document.get("command")
    if not isinstance(command, str):
        raise nothing(source, "a recipe has a `command`")
    values = {"host": "0.0.0.0", "port": 8000, "model": document.get("model")}
    values |= _pairs(document.get("defaults"))
    notes: list[str] = []

    def value(match: re.Match[str]) -> str:
        found = values.get(match[1])
        if found is None:
            notes.append(f"{{{match[1]}}} has no default")
            return match[0]
        return str(found)

    filled = re.sub(r"\{(\w+)\}", value, command)
    found = shell.read(filled, source)
    image = document.get("container")
    env = {key: str(one) for key, one in _pairs(document.get("env")).items()}
    notes += [f"`mods` are not applied: {document['mods']}"] if document.get("mods") else []
    return _with(found, env, notes, image=str(image) if image else None)


READERS: Mapping[str, Callable[[str, str], Given]] = {
    "unit": unit,
    "compose": compose,
    "recipe": recipe,
    "script": shell.read,
}
"""By the kind of file."""


def _with(
    found: Given,
    env: Mapping[str, str],
    notes: list[str],
    gpus: list[int] | None = None,
    image: str | None = None,
) -> Given:
    return Given(
        found.argv,
        {**found.env, **env},
        found.program,
        image or found.image,
        gpus if gpus is not None else found.gpus,
        [*found.notes, *notes],
    )


def _of_service(words: list[str], image: str) -> Given | None:
    filled = [_default(word) for word in words]
    if len(filled) > 2 and filled[0].endswith("sh") and filled[1] in ("-c", "-lc"):
        filled = shlex.split(filled[2], comments=True)
    found = shell.of_words(filled, {}) if filled else None
    if found is None and "vllm" in image.lower():
        arguments = filled[1:] if filled[:1] == ["serve"] else filled
        found = Given(arguments)
    if found is None:
        return None
    return Given(found.argv, found.env, None, _default(image) or None, notes=found.notes)


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        return shlex.split(value, comments=True)
    return [str(word) for word in value] if isinstance(value, list) else []


def _pairs(value: Any) -> dict[str, Any]:
    """A mapping, or a list of NAME=VALUE."""
    if isinstance(value, dict):
        return {str(key): one for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return dict(str(one).partition("=")[::2] for one in value if "=" in str(one))
    return {}


def _default(value: Any) -> str:
    """A value with Compose's `${NAME:-default}` filled and `$$` undone."""
    text = "true" if value is True else "false" if value is False else str(value)
    filled = re.sub(r"(?<!\$)\$\{\w+:?-([^}]*)\}", lambda match: match[1], text)
    return filled.replace("$$", "$")


def _devices(service: Mapping[str, Any]) -> list[int] | None:
    node: Any = service
    for key in ("deploy", "resources", "reservations", "devices"):
        node = node.get(key) if isinstance(node, dict) else None
    for device in node if isinstance(node, list) else ():
        named = device.get("device_ids") if isinstance(device, dict) else None
        if named and all(str(one).isdecimal() for one in named):
            return [int(one) for one in named]
    return None


def _yaml(text: str, source: str) -> dict[str, Any]:
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise nothing(source, f"it is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise nothing(source, "not a mapping")
    return document
