"""What ships with deployctl: valid here, and all of it in a wheel that is installed elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import uv

from deployctl.config.loader import load_host, load_playbook, load_profile
from deployctl.config.search import Place, Search
from deployctl.config.shipped import bundled_model, bundled_models, data_directory
from deployctl.errors import ConfigError
from deployctl.steps import registry

ROOT = Path(__file__).parents[3]
SHIPPED = Search((Place("shipped", data_directory()),))
MODELS = ("tiny-dflash-full", "tiny-dflash-stale", "tiny-target")


def names(folder: str) -> list[str]:
    return sorted(path.stem for path in (data_directory() / folder).glob("*.yaml"))


@pytest.mark.parametrize("name", names("profiles"))
def test_every_profile_is_valid_and_its_playbook_too(name: str) -> None:
    profile = load_profile(name, environ={}, search=SHIPPED).profile
    assert profile.name == name
    assert profile.description
    assert load_playbook(profile.playbook, registry.options(), search=SHIPPED).steps


@pytest.mark.parametrize("name", names("profiles/hosts"))
def test_every_host_is_valid(name: str) -> None:
    host = load_host(name, search=SHIPPED)
    assert host.name == name
    assert host.description


@pytest.mark.parametrize("name", names("playbooks"))
def test_every_playbook_is_valid(name: str) -> None:
    playbook = load_playbook(name, registry.options(), search=SHIPPED)
    assert playbook.name == name
    assert playbook.description


def test_up_stages_before_it_switches_and_gates_last() -> None:
    phases = [
        registry.steps()[step.step].phase
        for step in load_playbook("up", registry.options(), search=SHIPPED).steps
    ]
    assert phases == sorted(phases, key=["stage", "switch", "gate"].index)
    assert set(phases) == {"stage", "switch", "gate"}


def test_the_story_is_told_as_it_was() -> None:
    profile = load_profile("qwen36-dflash", environ={}, search=SHIPPED).profile
    (host,) = profile.hosts
    assert host.container is not None and host.container.id == "129"
    assert host.node is not None and host.node.ssh is not None
    assert profile.model.path == "/root/models/Qwen3.6-27B"
    assert profile.drafter is not None and profile.drafter.model is not None
    assert profile.drafter.model.repo == "z-lab/Qwen3.6-27B-DFlash"
    assert profile.drafter.config["dflash_config.mask_token_id"] == 248070
    assert profile.drafter.config["dflash_config.target_layer_ids"] == [1, 16, 31, 46, 61]
    assert profile.build.source.ref == "dflash-swa-support"
    assert profile.serve.port == 30000
    assert len(profile.fixes.require) == 3


def test_bundled_models_have_weights_and_other_names_are_refused() -> None:
    assert set(MODELS) <= set(bundled_models())
    for name in MODELS:
        assert (bundled_model(name) / "model.safetensors").stat().st_size > 1_000_000
    with pytest.raises(ConfigError, match="did you mean tiny-target"):
        bundled_model("tiny-tarjet")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, built by its own build backend."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=600)
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_holds_the_data(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = {info.filename: info.file_size for info in archive.infolist()}
    for folder in ("profiles", "profiles/hosts", "playbooks"):
        for name in names(folder):
            assert files[f"deployctl/data/{folder}/{name}.yaml"] > 0
    for name in MODELS:
        assert files[f"deployctl/data/models/{name}/model.safetensors"] > 1_000_000
    assert not [name for name in files if name.startswith(("tests/", "models/"))]


def test_an_installed_wheel_finds_its_data(wheel: Path, tmp_path: Path) -> None:
    """Installed into an environment of its own, whose dependencies are this environment's."""
    home = tmp_path / "home"
    home.mkdir()
    environment = tmp_path / "venv"
    program = uv.find_uv_bin()
    subprocess.run([program, "venv", "-q", "--python", sys.executable, environment], check=True)
    python = environment / "bin/python"
    install = [program, "pip", "install", "-q", "--no-deps", "--python", str(python), str(wheel)]
    subprocess.run(install, check=True, timeout=600)
    (packages,) = environment.glob("lib/python*/site-packages")
    borrowed = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "dependencies.pth").write_text(f"{borrowed}\n")

    def deployctl(*arguments: str) -> str:
        command = [str(environment / "bin/deployctl"), *arguments]
        env = {"HOME": str(home), "PATH": os.environ["PATH"]}
        ran = subprocess.run(command, cwd=home, env=env, check=True, capture_output=True, text=True)
        return ran.stdout

    listed = json.loads(deployctl("profile", "list", "--json"))
    assert [entry["name"] for entry in listed["profiles"]] == names("profiles")
    for entry in [*listed["profiles"], *listed["playbooks"], *listed["hosts"]]:
        assert entry["from"] == "shipped"
        assert Path(entry["path"]).is_relative_to(packages / "deployctl/data")
    assert "invalid" not in deployctl("profile", "validate")
