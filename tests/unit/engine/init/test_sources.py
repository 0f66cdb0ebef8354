"""Servers as people start them, and the profiles that start the same.

The inputs follow forms seen in public: vLLM's own documents and recipes, guides with a systemd
unit, Compose files of single machines, `docker run` lines, start scripts with defaults, and the
recipe files of two launchers for DGX Spark. Names, paths and figures are our own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from deployctl.config.loader import load_profile
from deployctl.config.profile import Profile
from deployctl.engine.init import files, profile_text, shell, written
from deployctl.engine.init.given import Given
from deployctl.errors import DeployError, UsageError
from deployctl.vllm.serving.arguments import NotUnderstood, parse

ROOT = Path(__file__).parents[4]
PLAIN = "vllm serve Qwen/Qwen3-8B --port 8001 --max-model-len 32k --gpu-memory-utilization=0.85"
NOHUP = """\
#!/bin/bash
# start the big one
set -e
source /opt/venv/bin/activate
export CUDA_VISIBLE_DEVICES=0,1
export VLLM_USE_V1=1 HF_TOKEN=hf_canary
MODEL=${MODEL:-/models/Llama-3.3-70B-Instruct}
PORT=30000
nohup /opt/venv/bin/vllm serve "$MODEL" \\
    --served-model-name llama \\
    -tp 2 --max_num_seqs 64 --enable-prefix-caching --no-enable-chunked-prefill \\
    --port ${PORT} --host 0.0.0.0 --api-key sk-canary \\
    > /var/log/vllm.log 2>&1 &
echo started
"""
OLD = (
    "python3 -m vllm.entrypoints.openai.api_server --model mistralai/Mistral-7B-Instruct-v0.3 "
    "--tensor-parallel-size 1 --quantization fp8 --trust-remote-code "
    "--revision 0123456789abcdef0123456789abcdef01234567"
)
DOCKER = """\
docker run --runtime nvidia --gpus '"device=1"' -d --rm --name llm \\
  -v ~/.cache/huggingface:/root/.cache/huggingface \\
  -e HF_TOKEN=$HF_TOKEN --env "VLLM_ATTENTION_BACKEND=FLASHINFER" \\
  -p 8000:8000 --ipc=host vllm/vllm-openai:v0.20.1-cu130 \\
  --model openai/gpt-oss-20b --max-num-batched-tokens 8192 --async-scheduling
"""
UNIT = """\
[Unit]
Description=vLLM
[Service]
User=vllm
Environment="HF_HOME=/srv/hf" VLLM_LOGGING_LEVEL=INFO
Environment=CUDA_VISIBLE_DEVICES=2
EnvironmentFile=-/etc/vllm/secrets.env
ExecStart=/srv/venv/bin/vllm serve /srv/models/qwen \\
    --served-model-name qwen --dtype bfloat16 \\
    --speculative-config '{"method": "eagle3", "model": "/srv/models/qwen-eagle3", \\
"num_speculative_tokens": 4, "draft_tensor_parallel_size": 1}'
Restart=always
"""
COMPOSE = """\
services:
  proxy: {image: "nginx:1"}
  llm:
    image: vllm/vllm-openai:${TAG:-v0.21.0}
    command: >
      --model Qwen/Qwen3-Coder-30B --tool-call-parser qwen3_coder --enable-auto-tool-choice
      --max-model-len ${LEN:-65536}
    environment:
      - VLLM_SLEEP_WHEN_IDLE=1
      - HF_TOKEN=${HF_TOKEN}
    ports: ["8000:8000"]
    deploy:
      resources:
        reservations:
          devices: [{driver: nvidia, device_ids: ["0", "3"], capabilities: [gpu]}]
"""
COMPOSE_LIST = """\
services:
  vllm:
    image: registry.example/own:1
    entrypoint: ["bash", "-lc"]
    command:
      - exec vllm serve /m/x --port 9000 --kv-cache-dtype fp8 --limit-mm-per-prompt '{"image":2}'
    environment: {VLLM_NO_USAGE_STATS: 1}
"""
RECIPE = """\
recipe_version: "1"
name: coder
model: org/Coder-120B
container: vllm-node
defaults: {port: 8002, host: 0.0.0.0, tensor_parallel: 2, gpu_memory_utilization: 0.7}
env: {VLLM_USE_FLASHINFER_MOE: "1"}
command: |
  vllm serve {model} \\
    --host {host} --port {port} -tp {tensor_parallel} \\
    --gpu-memory-utilization {gpu_memory_utilization} --load-format fastsafetensors
"""
TMUX = """\
#!/usr/bin/env bash
export HF_HOME=/data/hf VLLM_WORKER_MULTIPROC_METHOD=spawn
GPUS=2
tmux new -d -s vllm || true
CUDA_VISIBLE_DEVICES=4,5 exec python -m vllm.entrypoints.openai.api_server \\
  --model=org/Coder-32B-AWQ --quantization awq_marlin --dtype half \\
  --tensor-parallel-size $GPUS --served-model-name coder \\
  --speculative-config '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4}'
"""
PODMAN = """\
sudo podman run -d --name chat --replace --device nvidia.com/gpu=all --shm-size 16g \\
  --env-file=/etc/chat.env -e VLLM_LOGGING_LEVEL=WARNING -p 127.0.0.1:8080:8000 \\
  docker.io/vllm/vllm-openai:v0.19.1 \\
  org/Chat-27B --reasoning-parser qwen3 --max-model-len 65536 --limit-mm-per-prompt.image 0
"""
SHELL_UNIT = """\
[Unit]
After=network-online.target
[Service]
Type=simple
WorkingDirectory=/opt/serve
Environment=PYTHONUNBUFFERED=1
ExecStart=/bin/bash -lc 'source /opt/serve/venv/bin/activate && exec vllm serve \\
  /opt/serve/model --port 8010 --host 127.0.0.1 --enable-prefix-caching'
TimeoutStopSec=120
[Install]
WantedBy=multi-user.target
"""
TEMPLATE_UNIT = """\
[Service]
ExecStart=
ExecStart=-/usr/local/bin/vllm serve org/Embed-4B --runner pooling --port 8020 --seed 1
Environment='VLLM_USE_V1=1' "OMP_NUM_THREADS=8"
Restart=on-failure
"""
COMPOSE_ANCHORS = """\
x-gpu: &gpu
  deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all}]}}}
services:
  webui: {image: "ghcr.io/open/webui:main", depends_on: [inference]}
  inference:
    <<: *gpu
    image: "vllm/vllm-openai:v0.20.0"
    command: ["--model", "org/Small-4B", "--gpu-memory-utilization", "0.45", "--enforce-eager"]
    environment: {HUGGING_FACE_HUB_TOKEN: "${HF_TOKEN:?}", TZ: Europe/Vienna}
    ipc: host
"""
COMPOSE_EAGLE = """\
services:
  api:
    image: vllm/vllm-openai:v0.21.0-x86_64
    entrypoint: vllm
    command: >-
      serve org/Base-8B --served-model-name base --port 8000
      --speculative-config '{"model": "org/Base-8B-EAGLE3", "method": "eagle3",
      "num_speculative_tokens": 3}'
"""
RECIPE_MODS = """\
name: air
description: four nodes
model: org/Air-106B-FP8
mods: [mods/fix-tokenizer]
defaults:
  port: 8000
  host: 0.0.0.0
  tensor_parallel: 1
  max_model_len: 131072
command: |
  vllm serve org/Air-106B-FP8 --host {host} --port {port} \\
    --max-model-len {max_model_len} --tensor-parallel-size {tensor_parallel} \\
    --kv-cache-dtype fp8 --enable-auto-tool-choice --tool-call-parser glm45
"""
RECIPE_SHORT = """\
model: org/Nano-30B
container: vllm/vllm-openai:v0.20.1
env: {VLLM_FLASHINFER_MOE_BACKEND: throughput, HF_TOKEN: hf_canary}
command: "exec vllm serve {model} --port {port} --trust-remote-code --revision {revision}"
defaults: {port: 8001, revision: 0123456789abcdef0123456789abcdef01234567}
"""
INPUTS = {
    "tmux": ("script", TMUX),
    "podman": ("script", PODMAN),
    "shell-unit": ("unit", SHELL_UNIT),
    "template-unit": ("unit", TEMPLATE_UNIT),
    "compose-anchors": ("compose", COMPOSE_ANCHORS),
    "compose-eagle": ("compose", COMPOSE_EAGLE),
    "recipe-mods": ("recipe", RECIPE_MODS),
    "recipe-short": ("recipe", RECIPE_SHORT),
    "plain": ("script", PLAIN),
    "nohup": ("script", NOHUP),
    "old": ("script", OLD),
    "docker": ("script", DOCKER),
    "unit": ("unit", UNIT),
    "compose": ("compose", COMPOSE),
    "compose-list": ("compose", COMPOSE_LIST),
    "recipe": ("recipe", RECIPE),
}


def made(kind: str, text: str, folder: Path) -> tuple[Profile, list[str]]:
    """The profile that comes of a text, and what is reported beside."""
    drafted = profile_text.draft(files.READERS[kind](text, "it"), "p", "local", "it")
    written.write(drafted, folder, {})
    return load_profile(str(folder / "p.yaml"), environ={}).profile, drafted.notes


@pytest.mark.parametrize("name", INPUTS)
def test_the_profile_is_valid_and_starts_the_same(name: str, tmp_path: Path) -> None:
    _, notes = made(*INPUTS[name], tmp_path)
    assert not [note for note in notes if note.startswith("--")]
    assert "canary" not in (tmp_path / "p.yaml").read_text()


def test_a_script(tmp_path: Path) -> None:
    profile, notes = made("script", NOHUP, tmp_path)
    serve = profile.serve
    assert profile.model.path == "/models/Llama-3.3-70B-Instruct"
    assert (serve.port, serve.host, serve.tensor_parallel_size) == (30000, "0.0.0.0", 2)
    assert serve.gpus == [0, 1] and profile.model.served_name == "llama"
    assert serve.args == {
        "max-num-seqs": "64",
        "enable-prefix-caching": True,
        "no-enable-chunked-prefill": True,
    }
    assert serve.env == {"VLLM_USE_V1": "1"} and serve.secrets["HF_TOKEN"].env == "HF_TOKEN"
    assert serve.api_key is not None and serve.api_key.env == "VLLM_API_KEY"
    assert any("API key is not written" in note for note in notes)


def test_docker_run(tmp_path: Path) -> None:
    profile, notes = made("script", DOCKER, tmp_path)
    assert profile.build.source.release == "0.20.1" and profile.serve.gpus == [1]
    assert profile.model.repo == "openai/gpt-oss-20b"
    assert profile.serve.args["async-scheduling"] is True
    assert profile.serve.env == {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}
    assert not any("version" in note for note in notes)


def test_a_unit_with_a_drafter(tmp_path: Path) -> None:
    profile, notes = made("unit", UNIT, tmp_path)
    drafter = profile.drafter
    assert drafter is not None and drafter.model is not None
    assert (drafter.method, drafter.num_speculative_tokens) == ("eagle3", 4)
    assert drafter.model.path == "/srv/models/qwen-eagle3"
    assert drafter.speculative == {"draft_tensor_parallel_size": 1}
    assert profile.serve.env == {"HF_HOME": "/srv/hf", "VLLM_LOGGING_LEVEL": "INFO"}
    assert profile.serve.gpus == [2]
    assert "variables of /etc/vllm/secrets.env are not read" in notes


def test_compose(tmp_path: Path) -> None:
    profile, notes = made("compose", COMPOSE, tmp_path)
    assert profile.build.source.release == "0.21.0" and profile.serve.gpus == [0, 3]
    assert profile.serve.max_model_len == 65536
    assert list(profile.serve.secrets) == ["HF_TOKEN"]
    assert "service llm was taken, not proxy" in notes


def test_a_recipe(tmp_path: Path) -> None:
    profile, _ = made("recipe", RECIPE, tmp_path)
    serve = profile.serve
    assert (serve.port, serve.tensor_parallel_size) == (8002, 2)
    assert serve.gpu_memory_utilization == 0.7
    assert serve.args == {"load-format": "fastsafetensors"}


def test_tokens_as_vllm_reads_them() -> None:
    drafted = profile_text.draft(shell.read(PLAIN, "it"), None, "local", "it")
    assert "max_model_len: 32000" in drafted.text and drafted.name == "qwen3-8b"
    larger = profile_text.draft(Given(["m/m", "--max-model-len", "32K"]), None, "local", "it")
    assert "max_model_len: 32768" in larger.text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("script", "echo hello"),
        ("script", "python train.py"),
        ("unit", "[Service]\nExecStart=/usr/bin/nginx\n"),
        ("compose", "services: {web: {image: nginx}}"),
        ("compose", "[]"),
        ("compose", "{{{"),
        ("recipe", "model: x"),
    ],
)
def test_what_starts_no_server_is_refused(kind: str, text: str) -> None:
    with pytest.raises(UsageError, match="starts no vLLM server"):
        files.READERS[kind](text, "it")


@pytest.mark.parametrize("words", [["m", "n"], ["m", "--", "x"], ["m", "-zz"]])
def test_what_is_none_of_vllms_forms(words: list[str]) -> None:
    with pytest.raises(NotUnderstood):
        parse(words)


def test_code_of_a_repository_needs_its_commit(tmp_path: Path) -> None:
    with pytest.raises(DeployError) as caught:
        made("script", "vllm serve org/model --trust-remote-code", tmp_path)
    assert "revision" in str(caught.value.parts())
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    made("script", PLAIN, tmp_path)
    with pytest.raises(UsageError, match="exists"):
        made("script", OLD, tmp_path)
    assert "Qwen3-8B" in (tmp_path / "p.yaml").read_text()


def test_the_command(tmp_path: Path) -> None:
    def init(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "deployctl", "init", *arguments],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={
                "PYTHONPATH": str(Path(__file__).parents[4]),
                "HOME": str(tmp_path),
                "PATH": "/bin",
            },
        )

    done = init("--from", PLAIN, "--ssh", "root@gpu1")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "profiles/hosts/gpu1.yaml").exists()
    assert "next: deployctl plan --profile qwen3-8b" in done.stderr
    assert init("--from", PLAIN).returncode == 2
    assert init().returncode == 2


@examples(st.sampled_from(sorted(files.READERS)), st.text(max_size=200))
def test_any_text_is_a_server_or_refused(kind: str, text: str) -> None:
    try:
        profile_text.draft(files.READERS[kind](text, "it"), None, "local", "it")
    except DeployError:
        pass


@examples(
    st.lists(st.sampled_from(["vllm", "serve", "m", "--a", "-tp", "2", "'", "$X", ";", "\n"]))
)
def test_any_script(words: list[str]) -> None:
    try:
        profile_text.draft(shell.read(" ".join(words), "it"), None, "local", "it")
    except DeployError:
        pass


def test_a_container_whose_port_is_published_elsewhere(tmp_path: Path) -> None:
    profile, notes = made("script", PODMAN, tmp_path)
    assert profile.model.repo == "org/Chat-27B"
    assert profile.build.source.release == "0.19.1"
    assert any("127.0.0.1:8080:8000" in note for note in notes)
    assert "variables of /etc/chat.env are not read" in notes
