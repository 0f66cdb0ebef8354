"""The launcher that imports, waits and serves: its conversation, with a stand-in for vLLM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from deployctl.vllm.serving import warm_launcher
from deployctl.vllm.serving.warm_launcher import METHOD

MAIN = f"""\
import json, os, sys
def main():
    comm = open("/proc/self/comm").read().strip()
    print(json.dumps([sys.argv, os.environ.get({METHOD!r}), sys.stdin.read(), comm]), flush=True)
"""


class Launched:
    """A launcher that runs in an environment whose vllm is `MAIN`, and torch one for `cuda`."""

    def __init__(self, folder: Path, cuda: str | None, initialised: bool = False, **env: str):
        site = folder / "site"
        package = site / "vllm/entrypoints/cli"
        package.mkdir(parents=True)
        for init in (site / "vllm", site / "vllm/entrypoints", package):
            (init / "__init__.py").touch()
        (package / "main.py").write_text(MAIN)
        (site / "torch.py").write_text(
            "import types\n"
            f"version = types.SimpleNamespace(cuda={cuda!r})\n"
            f"cuda = types.SimpleNamespace(is_initialized=lambda: {initialised})\n"
        )
        read, write = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, warm_launcher.__file__, "wait", str(write)],
            env={"PYTHONPATH": str(site), **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[write],
            text=True,
        )
        os.close(write)
        self.reports = os.fdopen(read)

    def tell(self, line: str) -> dict[str, Any]:
        """Say a line; what it reports then."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.reports.readline())
        return found

    def end(self) -> str:
        """Say no more; all that it prints until its end."""
        out, _ = self.process.communicate()
        self.reports.close()
        return out


ARGV = ["/env/bin/vllm", "serve", "/model", "--port", "1"]


@pytest.mark.parametrize(
    ("cuda", "initialised", "env", "method", "reason"),
    [
        ("12.8", False, {}, "fork", None),
        ("12.8", True, {}, "spawn", "CUDA was initialised"),
        (None, False, {}, "spawn", "not a CUDA build"),
        ("12.8", False, {METHOD: "spawn"}, "spawn", f"{METHOD} is set"),
    ],
)
def test_it_imports_waits_and_is_vllm_then(
    tmp_path: Path,
    cuda: str | None,
    initialised: bool,
    env: dict[str, str],
    method: str,
    reason: str | None,
) -> None:
    launched = Launched(tmp_path, cuda, initialised, **env)
    warm = launched.tell(json.dumps(ARGV))
    assert warm["cuda"] is initialised and warm["devices"] == [] and warm["resident"] > 0
    assert "vllm.v1.engine.core: ModuleNotFoundError" in warm["missing"]
    assert not [name for name in warm["missing"] if name.startswith("vllm.entrypoints.cli.main")]
    going = launched.tell("serve")
    assert (going["method"], going.get("reason")) == (method, reason)
    assert launched.reports.read() == "", "the descriptor is closed before vLLM begins"
    out = launched.end()
    # Left to vLLM where it chooses itself.
    chosen = None if cuda is None else method
    assert json.loads(out) == [ARGV, chosen, "", "vllm"] and launched.process.returncode == 0


@pytest.mark.parametrize("works", [True, False])
def test_where_an_import_called_cuinit_a_forked_child_tries_a_gpu(
    monkeypatch: pytest.MonkeyPatch, works: bool
) -> None:
    parent = os.getpid()

    def zeros(count: int, device: str) -> None:
        assert (device, os.getpid() != parent) == ("cuda", works)

    torch = types.SimpleNamespace(zeros=zeros, version=types.SimpleNamespace(cuda="12.8"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(warm_launcher, "open_devices", lambda: [warm_launcher.UVM])
    monkeypatch.delenv(METHOD, raising=False)
    reason = {} if works else {"reason": "a forked child cannot use CUDA"}
    method = "fork" if works else "spawn"
    assert warm_launcher.method(cuda=False) == {"method": method, **reason}
    assert os.environ.pop(METHOD) == method


def test_what_was_tried_while_it_waited_is_not_tried_at_the_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = types.SimpleNamespace(version=types.SimpleNamespace(cuda="12.8"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(warm_launcher, "open_devices", lambda: [warm_launcher.UVM])
    monkeypatch.delenv(METHOD, raising=False)
    answers = [True, False]
    monkeypatch.setattr(warm_launcher, "forked_uses_cuda", lambda: answers.pop(0))
    assert warm_launcher.tried(cuda=False) is True
    assert warm_launcher.method(cuda=False, forks=True) == {"method": "fork"}
    assert os.environ.pop(METHOD) == "fork" and answers == [False]
    # A child that found no memory beside what served is tried once more.
    assert warm_launcher.method(cuda=False, forks=False)["method"] == "spawn"
    assert os.environ.pop(METHOD) == "spawn" and not answers
    assert warm_launcher.tried(cuda=True) is None


def test_without_the_word_it_ends(tmp_path: Path) -> None:
    launched = Launched(tmp_path, None)
    launched.tell(json.dumps(ARGV))
    out = launched.end()
    assert (out, launched.process.returncode) == ("", 0)


def test_models_are_found_by_the_command_line(tmp_path: Path) -> None:
    for name, kind in (("target", "qwen3"), ("drafter", "llama")):
        (tmp_path / name).mkdir()
        config = {"model_type": kind, "architectures": ["Some"]}
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    speculation = json.dumps({"method": "dflash", "model": str(tmp_path / "drafter")})
    argv = ["vllm", "serve", str(tmp_path / "target"), "--speculative-config", speculation]
    found = warm_launcher.modules(argv, cuda=False)
    assert {"transformers.models.qwen3", "transformers.models.llama"} <= set(found)
    assert not set(warm_launcher.WORKER) & set(found)
    assert set(warm_launcher.WORKER) <= set(warm_launcher.modules(argv, cuda=True))
    broken = ["vllm", "serve", "/nowhere", "--speculative-config", "{"]
    assert warm_launcher.modules(broken, cuda=False) == list(warm_launcher.SERVER)
