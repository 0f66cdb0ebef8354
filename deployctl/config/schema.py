"""JSON Schemas of profiles, host files, groups and playbooks as they are written, for editors.

They accept what the loader accepts in a file: hosts by name, text that looks like a number, and,
in a profile with `extends`, the absence of what it inherits.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Literal

from deployctl.config.base import Settings
from deployctl.config.host import HostSettings
from deployctl.config.inventory import GroupSettings
from deployctl.config.playbook import Playbook
from deployctl.config.profile import Profile
from deployctl.config.step_options import Options

Document = Literal["profile", "host", "group", "playbook"]

_MODELS: dict[Document, type[Settings]] = {
    "profile": Profile,
    "host": HostSettings,
    "group": GroupSettings,
    "playbook": Playbook,
}
_NAMED_BY_FILE = "name"
_PARTIAL = "Partial"
_BY_NAME = {"hosts", "members", "node", "steps"}
"""Keys whose values may be given by a name alone."""


def json_schema(document: Document, steps: Options) -> dict[str, Any]:
    """The schema (draft 2020-12) of one kind of file; playbooks have these steps."""
    schema = _MODELS[document].model_json_schema(by_alias=True)
    definitions = schema.pop("$defs", {})
    body = definitions.pop("HostSettings") if document == "host" else schema
    if document == "host":
        definitions["HostSettings"] = copy.deepcopy(body)
        body = copy.deepcopy(body)
    for part in (body, *definitions.values()):
        _as_written(part)
    if document == "playbook":
        definitions["StepSettings"]["allOf"] = list(_options_by_step(steps))
    body["required"] = [name for name in body.get("required", []) if name != _NAMED_BY_FILE]
    result = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": definitions}
    if document != "profile":
        return {**result, **body}
    for name in list(definitions):
        definitions[f"{name}{_PARTIAL}"] = _partial(definitions[name])
    return {
        **result,
        "title": body["title"],
        "description": body["description"],
        "type": "object",
        "if": {"required": ["extends"], "properties": {"extends": {"type": "string"}}},
        "then": _partial(body),
        "else": body,
    }


def _options_by_step(steps: Options) -> Iterator[dict[str, Any]]:
    """What may stand below a step's `with`, by the step's name."""
    taking = {name: model for name, model in steps.items() if model.model_fields}
    for name, model in taking.items():
        options = _or_nothing(model.model_json_schema())
        yield {
            "if": {"properties": {"step": {"const": name}}},
            "then": {"properties": {"with": options}},
        }
    none = {"description": "This step takes no options.", "maxProperties": 0}
    yield {
        "if": {"properties": {"step": {"enum": list(taking)}}},
        "else": {"properties": {"with": none}},
    }


def _as_written(schema: Any) -> None:
    """Change a model's schema to that of the text from which the loader makes it."""
    if isinstance(schema, list):
        for item in schema:
            _as_written(item)
        return
    if not isinstance(schema, dict):
        return
    for value in schema.values():
        _as_written(value)
    properties = schema.get("properties", {})
    for name in _BY_NAME & set(properties):
        _allow_names(properties[name])
    for name in set(properties) - set(schema.get("required", [])):
        properties[name] = _or_nothing(properties[name])
    if schema.get("type") == "string" and not {"enum", "const", "pattern"} & set(schema):
        schema["type"] = ["string", "number", "boolean"]


def _allow_names(schema: dict[str, Any]) -> None:
    """Let a name stand where an item (or the value) would be written out."""
    if "items" in schema:
        schema["items"] = {"anyOf": [{"type": "string"}, schema["items"]]}
    else:
        written = schema.pop("anyOf", None) or [{"$ref": schema.pop("$ref")}]
        schema["anyOf"] = [{"type": "string"}, *written]


def _or_nothing(schema: dict[str, Any]) -> dict[str, Any]:
    """A key without a value takes its default."""
    told: dict[str, Any] = {
        key: schema[key] for key in ("title", "description", "default") if key in schema
    }
    rest = {key: value for key, value in schema.items() if key not in told}
    return {**told, "anyOf": [*rest.pop("anyOf", [rest]), {"type": "null"}]}


def _partial(schema: Any) -> Any:
    """The same without required keys, here and below."""
    if isinstance(schema, list):
        return [_partial(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    partial = {key: _partial(value) for key, value in schema.items() if key != "required"}
    if isinstance(partial.get("$ref"), str):
        partial["$ref"] += _PARTIAL
    return partial
