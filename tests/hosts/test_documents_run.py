"""Every command of the documentation is run, in the order of its page, against stand-ins.

The reader's profiles (`mine`, `demo`, `P`, …) are one profile here, whose server is the stand-in
for vLLM; `gpu1` and `my-ct` are this machine. `ELSEWHERE` and `CANNOT` list what is not run, each
with its reason: a command of the documentation is there, or it exits as documented.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deployctl.cli.app import app
from deployctl.errors import DeployError
from tests.hosts.served.host import REPOSITORY, ServedHost
from tests.unit.test_documents import NAMES, command_lines

pytestmark = pytest.mark.xdist_group("documents")

ELSEWHERE = {
    "fleet": ("several machines", "tests/hosts/engine/test_many_hosts.py"),
    "replicas": ("several machines and a router", "tests/hosts/engine/test_rolling.py"),
    "big": ("several machines in a group", "tests/hosts/engine/test_group.py"),
    "live": ("two slots", "tests/hosts/engine/test_blue_green.py"),
    "front": ("two slots", "tests/hosts/engine/test_blue_green.py"),
    "gpu*:!gpu2": ("several machines", "tests/unit/config/test_host_patterns.py"),
    "adopt": ("a server started by hand", "tests/hosts/engine/test_adopt.py"),
    "chat": ("a server started by hand", "tests/hosts/engine/test_adopt.py"),
    "tune": ("minutes of a server", "tests/hosts/engine/test_tune.py"),
}
"""Profiles and commands that need more than one server here, and the tests that run them."""
HUB = "needs Hugging Face"
CONTAINER = "needs a container and its Proxmox node: tests/hosts/gpu/test_clean.py"
BUILD = "needs a real build: tests/hosts/builds/test_verify.py"
CANNOT: dict[str, str] = {
    "verify --profile pr": BUILD,
    "clean --profile qwen3 --scope container --plan": CONTAINER,
    "clean --profile qwen3 --scope container": CONTAINER,
    "export compose --profile qwen3": "needs a release for CUDA, of which there are images: "
    "tests/unit/report/export/test_formats.py",
    "init --model Qwen/Qwen3-8B --drafter org/Qwen3-8B-DFlash --port 8100 --ssh gpu1": HUB,
}
"""What cannot be run here, and why."""
ENDS = {
    "up --profile demo --skip drafter": 10,
    "doctor --container-conf 129.conf": 11,
}
"""How a command ends that does not end with 0."""
FOLLOWS = ("logs --profile P --follow", "watch --profile P")
"""Commands that go on until Ctrl-C; others of their kind begin with these words."""
CRONTAB = """\
#!/bin/sh
case "$1" in
-l) cat "$CRONTAB_STAND_IN" 2>/dev/null || { echo "no crontab for you" >&2; exit 1; } ;;
*) cat > "$CRONTAB_STAND_IN" ;;
esac
"""
"""A stand-in for crontab(1): this machine's own table is left alone."""
FILES = {
    "start.sh": "#!/bin/sh\nexec vllm serve Qwen/Qwen3-1.7B --port 8000\n",
    "vllm.service": "[Service]\nExecStart=/opt/vllm/bin/vllm serve Qwen/Qwen3-4B --port 8000\n",
    "docker-compose.yml": "services:\n  vllm:\n    image: vllm/vllm-openai:v0.32.0\n"
    "    command: --model Qwen/Qwen3-14B --port 8000\n",
}
LOG = REPOSITORY / "tests/cases/vllm_cpu/err-0.32.0-portinuse.log"
NAMED = ("mine", "demo", "P", "pr", "offline", "spark")


@dataclass
class Reader:
    """A folder as a reader has it, and a host that serves."""

    host: ServedHost
    folder: Path
    environment: Mapping[str, str]

    def run(self, words: list[str], input: str = "") -> tuple[int, str]:
        """Run a command in this process: its exit code, and all that it prints."""
        done = CliRunner().invoke(app, words, input=input, env=self.environment)
        if isinstance(done.exception, DeployError):
            return done.exception.exit_code, f"{done.output}\n{done.exception}"
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, done.output

    def follow(self, words: list[str]) -> int:
        """Run a command until it has printed something, and end it with Ctrl-C."""
        with subprocess.Popen(
            ["env", "--default-signal=INT", sys.executable, "-m", "deployctl", *words],
            env={**os.environ, **self.environment, "PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as running:
            assert running.stdout is not None
            assert running.stdout.readline()
            running.send_signal(signal.SIGINT)
            running.stdout.read()
        return running.returncode

    def serves(self) -> None:
        """Let the demo serve, whatever the page before has left."""
        if self.host.unit("demo")["state"] != "running":
            assert self.host.up().exit_code == 0

    def substituted(self, words: list[str]) -> list[str]:
        """The words with what is here in place of what the reader has."""
        named = {
            "http://127.0.0.1:8000": f"http://127.0.0.1:{self.host.port}",
            "/models/Qwen3-8B": str(REPOSITORY / "models" / "tiny-target"),
        }
        if words[0] == "schedule":
            # Entries have the profile's own name.
            named["mine"] = "demo"
        prometheus = "/var/lib/node_exporter"
        return [named.get(word, word.replace(prometheus, str(self.folder))) for word in words]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A host with two releases, and a reader's folder."""
    folder = tmp_path_factory.mktemp("reader")
    host = ServedHost(tmp_path_factory.mktemp("host"))
    text = host.profile_file.read_text("utf-8").replace("name: stand", "name: demo")
    text = text.replace("name: here", "name: gpu2")
    text = text.replace("extends: demo", f"extends: {REPOSITORY / 'profiles' / 'demo.yaml'}")
    host.profile_file.write_text(text, "utf-8")
    hosts = folder / "profiles" / "hosts"
    hosts.mkdir(parents=True)
    for name in NAMED:
        write_profile(folder, host, name)
    here = f"local: true\nroot: {host.root}\n"
    for name in ("gpu1", "gpu2", "my-ct"):
        (hosts / f"{name}.yaml").write_text(here, "utf-8")
    (hosts / "my-node.yaml").write_text("ssh: {address: pve1}\n", "utf-8")
    for name, text in FILES.items():
        (folder / name).write_text(text, "utf-8")
    log = REPOSITORY / "tests/cases/vllm_cpu/log-0.32.0-dflash.txt"
    shutil.copy(log, folder / "server.log")
    shutil.copy(REPOSITORY / "tests/cases/lxc/dev_nodes_plus_caps_509.txt", folder / "129.conf")
    programs = folder / "bin"
    programs.mkdir()
    (programs / "crontab").write_text(CRONTAB, "utf-8")
    (programs / "crontab").chmod(0o755)
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "CRONTAB_STAND_IN": str(folder / "crontab"),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "HF_ENDPOINT": "http://127.0.0.1:9",
    }
    before = Path.cwd()
    try:
        assert host.up("serve.max_model_len=512").exit_code == 0
        assert host.up().exit_code == 0
        os.chdir(folder)
        yield Reader(host, folder, environment)
    finally:
        os.chdir(before)
        host.ask("units.stop", profile="demo", unit="server", grace=0.5)
        host.close()


def write_profile(folder: Path, host: ServedHost, name: str) -> None:
    """A profile of the reader's: the one that is deployed here."""
    text = f"extends: {host.profile_file}\nname: demo\n"
    (folder / "profiles" / f"{name}.yaml").write_text(text, "utf-8")


def reason(line: str) -> str:
    """Why a command is not run here; empty where it is."""
    if line in CANNOT:
        return CANNOT[line]
    words = line.split()
    for word, (why, where) in ELSEWHERE.items():
        if word in words:
            return f"{why}: {where}"
    return ""


@pytest.mark.parametrize("name", [name for name in NAMES if command_lines(REPOSITORY / name)])
def test_every_command_of_a_page_runs(name: str, reader: Reader) -> None:
    reader.serves()
    wrong = []
    for words in command_lines(REPOSITORY / name):
        line = " ".join(words)
        if reason(line):
            continue
        followed = line.startswith(FOLLOWS) and "--count" not in words
        if followed:
            code, output = reader.follow(reader.substituted(words)), ""
        else:
            code, output = reader.run(reader.substituted(words), LOG.read_text("utf-8"))
        if "--name qwen3" in line:
            # Its model is at Hugging Face, and needs a GPU.
            write_profile(reader.folder, reader.host, "qwen3")
        if code != ENDS.get(line, 130 if followed else 0):
            wrong.append(f"{line}: exit code {code}\n{output}")
    assert not wrong, "\n\n".join(wrong)


def test_what_is_not_run_is_in_the_documentation_and_tested_elsewhere() -> None:
    lines = {" ".join(words) for name in NAMES for words in command_lines(REPOSITORY / name)}
    assert set(CANNOT) | set(ENDS) <= lines
    for word, (_, where) in ELSEWHERE.items():
        assert any(word in line.split() for line in lines), word
        assert (REPOSITORY / where).exists(), where
