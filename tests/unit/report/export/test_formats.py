"""Exports against the published schemas, and their command line against the one that `up` runs."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import compose_spec
import kubernetes_validate
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from deployctl.config.loader import load_profile
from deployctl.config.profile import Profile
from deployctl.engine.inspect.exporting import DRAFTER, MODEL, Exported, exported
from deployctl.errors import UsageError
from deployctl.report.export import compose, inventory, kubernetes, systemd
from deployctl.report.export.interface import dns_label
from deployctl.steps.interface import Deployment
from deployctl.steps.servers.serving import serve_settings
from deployctl.vllm.serving.command import command
from deployctl.vllm.serving.knowledge import read

IMAGE = "example/vllm:1"
CONFIG = json.dumps({"architectures": ["DFlashDraftModel"], "block_size": 16, "dflash_config": {}})
SECRET = "serve.secrets.HF_TOKEN.env=MY_TOKEN"


def profile(name: str = "demo", *sets: str) -> Profile:
    return load_profile(name, sets=list(sets), environ={}).profile


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(CONFIG)
    return path


@pytest.fixture(params=["demo", "qwen36-dflash", "qwen3-plain"])
def one(request: pytest.FixtureRequest, config: Path) -> Exported:
    return exported(profile(request.param, SECRET), IMAGE, config)


def test_the_command_line_is_the_one_that_up_runs() -> None:
    wanted = profile("demo")
    settings = serve_settings(
        Deployment(wanted, wanted.hosts[0]),
        "/env/bin/vllm",
        "/m/target",
        "/r/drafter",
        read(wanted.build.source.release),
    )
    there = {"/env/bin/vllm": "vllm", "/m/target": MODEL, wanted.serve.host: "0.0.0.0"}
    argv = [there.get(word, word).replace("/r/drafter", DRAFTER) for word in command(settings)]
    assert list(exported(wanted, IMAGE).argv) == argv


def services(text: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text)["services"]
    return found


def test_compose(one: Exported) -> None:
    text = compose.render(one)
    compose_spec.PyCompose.from_yaml(text)
    server = services(text)[one.name]
    words = [*server["entrypoint"], *server["command"]]
    assert [word.replace("$$", "$") for word in words] == list(one.argv)
    assert server["stop_grace_period"] == f"{one.stop_seconds}s"
    assert ("configs" in server) == (one.drafter_config is not None)
    devices = server.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices")
    assert bool(devices) == bool(one.gpus)


def test_compose_replaces_nothing_in_the_command_and_holds_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_TOKEN", "canary")
    text = compose.render(exported(profile("demo", SECRET, "model.served_name=a$b"), IMAGE))
    assert "a$$b" in text and "canary" not in text
    assert services(text)["demo"]["environment"]["HF_TOKEN"] == "${MY_TOKEN:?}"


def manifests(one: Exported) -> dict[str, dict[str, Any]]:
    found = list(yaml.safe_load_all(kubernetes.render(one)))
    return {document["kind"]: document for document in found}


def test_kubernetes(one: Exported) -> None:
    found = manifests(one)
    for document in found.values():
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    pod = found["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == list(one.argv)
    assert pod["terminationGracePeriodSeconds"] > one.stop_seconds
    assert found["Deployment"]["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 0
    assert container["resources"].get("limits", {}).get("nvidia.com/gpu", 0) == one.gpus
    named = {volume["name"] for volume in pod["volumes"]}
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert named == mounted
    if one.drafter_config is not None:
        assert found["ConfigMap"]["data"]["config.json"] == one.drafter_config


def test_the_drafters_config_has_the_wanted_values(config: Path) -> None:
    text = manifests(exported(profile("qwen36-dflash"), IMAGE, config))["ConfigMap"]["data"]
    assert json.loads(text["config.json"])["dflash_config"]["mask_token_id"] == 248070


def test_models_of_a_repository_are_fetched_at_their_revision(config: Path) -> None:
    wanted = profile("qwen36-dflash", "drafter.model.revision=abc")
    one = exported(wanted, IMAGE, config)
    (fetch,) = manifests(one)["Deployment"]["spec"]["template"]["spec"]["initContainers"]
    assert fetch["command"] == [
        *("hf", "download", "z-lab/Qwen3.6-27B-DFlash", "--revision", "abc"),
        *("--local-dir", DRAFTER),
    ]
    service = services(compose.render(one))["fetch-drafter"]
    assert service["entrypoint"] == fetch["command"]


def test_an_image_that_nobody_publishes_must_be_named() -> None:
    with pytest.raises(UsageError, match="no container image"):
        exported(profile("demo"), None)
    released = profile("qwen3-plain")
    if released.build.source.release:
        image = f"vllm/vllm-openai:v{released.build.source.release}"
        assert exported(released, None).image == image


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    assert program, "install the packages of .ci/apt.txt"
    argv = ["/bin/true", "a b", "--json", '{"x":"50%"}', "$HOME", "back\\slash", ""]
    path = tmp_path / "vllm-demo.service"
    path.write_text(systemd.render("demo", argv, {"A": 'b "c" $d 5%'}, ["HF_TOKEN"], 20.0))
    # It exits with 0 for a key that it does not know: its words are the verdict.
    checked = subprocess.run(
        [program, "verify", "--man=no", str(path)], capture_output=True, text=True, check=False
    )
    assert "demo.service" not in checked.stderr
    assert "TimeoutStopSec=35" in path.read_text()


@given(st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]), max_size=20))
def test_systemds_quoting_keeps_every_word(word: str) -> None:
    quoted = systemd.quoted(word).replace("$$", "$").replace("%%", "%")
    assert shlex.split(quoted, posix=True) == [word] or "'" in word or "#" in word


def test_ansible() -> None:
    found = yaml.safe_load(inventory.render(profile("qwen36-dflash")))
    host = found["all"]["children"]["qwen36_dflash"]["hosts"]["gpu-ct"]
    assert host["proxmox_vmid"] == "129"
    local = yaml.safe_load(inventory.render(profile("demo")))
    assert local["all"]["children"]["demo"]["hosts"]["local"] == {"ansible_connection": "local"}


@pytest.mark.parametrize(
    ("name", "label"),
    [("demo", "demo"), ("Qwen3.6_DFlash", "qwen3-6-dflash"), ("9b", "m-9b"), ("a" * 80, "a" * 63)],
)
def test_names_that_kubernetes_takes(name: str, label: str) -> None:
    assert dns_label(name) == label
