"""A resolved profile shown: itself a complete profile, each value with its origin."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.config import show
from deployctl.config.loader import Loaded, load_profile
from deployctl.config.profile import Profile
from deployctl.config.yamltext import parse
from tests.unit.config.conftest import Folder

SHIPPED = ("demo", "demo-ngram", "qwen3-plain", "qwen36-dflash")


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("with_origin", [False, True])
def test_what_is_shown_is_the_same_profile(folder: Folder, name: str, with_origin: bool) -> None:
    loaded = load_profile(name, environ={})
    folder.write("work/profiles/shown.yaml", show.as_yaml(loaded, with_origin))
    again = load_profile("shown", environ={})
    assert again.profile == loaded.profile.model_copy(update={"extends": None})
    assert len(again.files) == 1


free = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab #:'\"\n-[]{}", max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab.: #-", min_size=1), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abc._-: #'", min_size=1), free, max_size=4))
def test_any_free_values_are_shown_as_they_are(config: dict[str, Any]) -> None:
    data = {
        "name": "p",
        "hosts": [{"name": "here", "local": True}],
        "model": {"path": "/m", "served_name": "m"},
        "build": {"source": {"release": "0.33.0"}},
        "serve": {"port": 8000},
        "drafter": {
            "method": "dflash",
            "model": {"path": "/d"},
            "num_speculative_tokens": 7,
            "config": config,
        },
    }
    loaded = Loaded(Profile.model_validate(data), {}, ())
    assert parse(show.as_yaml(loaded), "shown", []).plain() == show.data(loaded)


def test_each_line_says_where_its_value_comes_from(folder: Folder) -> None:
    folder.profile("p", "serve: {port: 1, gpus: [0, 1], args: {a: 1}}\n")
    loaded = folder.load("p", "serve.port=2", DEPLOYCTL_BUILD__PYTHON="3.10")
    lines = {
        line.split(":")[0].strip(): line.split("  # ")[1]
        for line in show.as_yaml(loaded, with_origin=True).splitlines()
        if "  # " in line
    }
    assert lines["port"] == "--set"
    assert lines["gpus"] == "profiles/p.yaml:2:24"
    assert lines["a"] == "profiles/p.yaml:2:42"
    assert lines["python"] == "environment DEPLOYCTL_BUILD__PYTHON"
    assert lines["stall"] == "default"
    assert lines["name"] == "profiles/p.yaml:1:1"


def test_the_document_is_json_and_complete(folder: Folder) -> None:
    folder.profile("p", "")
    document = json.loads(json.dumps(show.as_document(folder.load("p"))))
    assert document["schema"] == "deployctl.profile/1"
    assert document["files"] == ["profiles/p.yaml", "profiles/smallest.yaml"]
    assert document["origins"]["serve.port"] == "profiles/smallest.yaml:5:15"
    assert document["profile"]["serve"]["port"] == 8000


def test_an_empty_root_says_which_directory_it_is(folder: Folder) -> None:
    folder.profile("p", "")
    for with_origin in (False, True):
        (line,) = [
            line
            for line in show.as_yaml(folder.load("p"), with_origin).splitlines()
            if "root:" in line
        ]
        assert "/var/lib/deployctl for root" in line
