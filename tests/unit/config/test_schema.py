"""The JSON Schemas for editors: they accept what the loader accepts, and refuse misspelt keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from deployctl.config import step_options
from deployctl.config.schema import Document, json_schema
from deployctl.config.shipped import data_directory
from deployctl.config.yamltext import parse, read
from deployctl.steps import registry
from tests.unit.config.conftest import SMALLEST

FOLDERS: dict[Document, str] = {
    "profile": "profiles",
    "host": "profiles/hosts",
    "playbook": "playbooks",
}
SHIPPED = [
    (document, path)
    for document, folder in FOLDERS.items()
    for path in sorted((data_directory() / folder).glob("*.yaml"))
]


def problems(document: Document, data: Any) -> list[str]:
    validator = jsonschema.Draft202012Validator(json_schema(document, registry.options()))
    return [error.message for error in validator.iter_errors(data)]


@pytest.mark.parametrize("document", FOLDERS)
def test_the_schema_is_one(document: Document) -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema(document, registry.options()))


@pytest.mark.parametrize(("document", "path"), SHIPPED, ids=lambda value: str(value)[-24:])
def test_everything_shipped_is_accepted(document: Document, path: Path) -> None:
    assert problems(document, read(path, []).plain()) == []


@pytest.mark.parametrize(
    "text",
    [
        SMALLEST,
        SMALLEST + "name: x\n",
        SMALLEST.replace("0.33.0", "0.33"),
        "extends: smallest\nserve: {dtype: auto}\n",
        "extends: smallest\nbuild: {source: {url: https://x}}\ndrafter: {method: ngram}\n",
        "extends: smallest\nserve: {args: }\nfixes:\n",
        SMALLEST.replace("{name: here, local: true}", "{container: {id: 129}, name: c, node: pve}"),
        SMALLEST.replace("{name: here, local: true}", "a, b"),
        SMALLEST + "clean: {grace: 1m30s, settle: 5}\n",
    ],
)
def test_what_the_loader_accepts(text: str) -> None:
    assert problems("profile", parse(text, "t", []).plain()) == []


@pytest.mark.parametrize(
    "text",
    [
        SMALLEST + "zz: 1\n",
        SMALLEST.replace("port: 8000", "port: 8000, prt: 1"),
        SMALLEST.replace("port: 8000", "port: 80000"),
        SMALLEST.replace("port: 8000", ""),
        SMALLEST.replace("serve: {port: 8000}\n", ""),
        SMALLEST + "clean: {grace: soon}\n",
        "extends: smallest\nserve: {prt: 1}\n",
        "extends: null\nserve: {port: 1}\n",
    ],
)
def test_what_the_loader_refuses(text: str) -> None:
    assert problems("profile", parse(text, "t", []).plain()) != []


STEPS = "name: p\nsteps: [fetch, {step: %s, with: %s}]\n"


@pytest.mark.parametrize(
    ("step", "options", "right"),
    [
        ("clean", "{scope: container, stop_unit: true}", True),
        ("clean", "{scope: }", False),
        ("clean", "", True),
        ("clean", "{scope: everything}", False),
        ("clean", "{scpe: gpu}", False),
        ("bench", "{concurrencies: [1, 8], compare: plain}", True),
        ("bench", "{concurrencies: [0]}", False),
        ("fetch", "{deep: true}", True),
        ("fetch", "{always: true}", False),
        ("ready", "{}", True),
        ("ready", "{always: true}", False),
    ],
)
def test_a_steps_options(step: str, options: str, right: bool) -> None:
    data = parse(STEPS % (step, options), "t", [])
    known = registry.options()
    by_schema, by_loader = problems("playbook", data.plain()), step_options.problems(data, known)
    assert (not by_schema, not list(by_loader)) == (right, right)


def test_keys_are_described() -> None:
    schema = json_schema("profile", {})
    assert (
        "TERM to SIGKILL"
        in schema["$defs"]["ServeSettings"]["properties"]["stop_grace"]["description"]
    )


def undescribed(schema: Any, place: str) -> Iterator[str]:
    """Each property without a description, here and below; a condition (`if`) describes none."""
    if isinstance(schema, list):
        for index, item in enumerate(schema):
            yield from undescribed(item, f"{place}[{index}]")
        return
    if not isinstance(schema, dict):
        return
    for name, told in schema.get("properties", {}).items():
        if not str(told.get("description", "")).strip():
            yield f"{place}: {name}"
    for word, value in schema.items():
        if word == "if":
            continue
        if word not in ("properties", "$defs"):
            yield from undescribed(value, f"{place}.{word}")
            continue
        for name, below in value.items():
            yield from undescribed(below, f"{place}.{name}")


@pytest.mark.parametrize("document", FOLDERS)
def test_every_key_says_what_it_is_for(document: Document) -> None:
    assert list(undescribed(json_schema(document, registry.options()), document)) == []


def test_a_key_without_a_word_is_named() -> None:
    schema = json_schema("profile", {})
    for part in ("ServeSettings", "ServeSettingsPartial"):
        del schema["$defs"][part]["properties"]["ready"]["description"]
    del schema["else"]["properties"]["smoke"]["description"]
    assert list(undescribed(schema, "profile")) == [
        "profile.ServeSettings: ready",
        "profile.ServeSettingsPartial: ready",
        "profile.else: smoke",
    ]
