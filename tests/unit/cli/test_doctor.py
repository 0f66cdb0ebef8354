"""doctor of a container's conf in a file: findings, advice and exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deployctl.cli.app import app
from deployctl.errors import UsageError

FIELD = Path(__file__).parents[2] / "cases/field"
PATHS, MOUNTS = FIELD / "10-lxc-dev-path", FIELD / "12-lxc-mount-target"


def doctor(conf: Path, *more: str, devices: Path = PATHS / "node.txt") -> tuple[int, Any]:
    argv = ["doctor", "--container-conf", str(conf), "--devices", str(devices), "--json", *more]
    done = CliRunner().invoke(app, argv)
    return done.exit_code, json.loads(done.stdout)


@pytest.mark.parametrize(
    ("conf", "code", "verdicts"),
    [
        (PATHS / "path.conf", 0, ["ok"] * 4),
        (PATHS / "igpu.conf", 6, ["failed"] * 4),
        (PATHS / "nothing.conf", 6, ["failed", "failed", "failed", "warning"]),
        (MOUNTS / "mknod.conf", 11, ["unknown"] * 4),
        (MOUNTS / "absolute.conf", 6, ["failed"] * 4 + ["warning"]),
        (MOUNTS / "deny.conf", 6, ["failed", "ok", "failed", "failed", "warning"]),
    ],
)
def test_a_conf_against_a_listing(conf: Path, code: int, verdicts: list[str]) -> None:
    got, document = doctor(conf)
    assert got == code
    assert [finding["verdict"] for finding in document["findings"]] == verdicts
    for finding in document["findings"]:
        assert set(finding) == {"verdict", "what", "where", "lines"}
        assert finding["where"].rpartition(":")[0] == str(conf) and finding["what"]


def test_advice_is_printed_once_and_together() -> None:
    argv = ["--container-conf", str(PATHS / "igpu.conf"), "--devices", str(PATHS / "node.txt")]
    done = CliRunner().invoke(app, ["doctor", *argv])
    assert done.exit_code == 6
    advice = done.stdout.partition("to do:\n")[2].split("\n")
    assert [line.split(":")[0].strip() for line in advice[:4]] == ["dev1", "dev2", "dev3", "dev4"]


def test_without_a_profile_it_says_how_to_examine_hosts() -> None:
    done = CliRunner().invoke(app, ["doctor"])
    assert "hosts were not examined: name a profile" in done.stdout
    assert "deployctl doctor --profile NAME" in done.stdout


def test_what_the_node_lacks(tmp_path: Path) -> None:
    listing = tmp_path / "node.txt"
    listing.write_text("ls: cannot access '/dev/nvidia*': No such file or directory\n")
    code, document = doctor(PATHS / "path.conf", devices=listing)
    assert code == 6
    assert document["findings"][0]["what"].startswith("no NVIDIA device is listed")
    assert document["findings"][0]["lines"] == ["nvidia-modprobe -c 0 -u"]


def test_an_include_beside_the_conf(tmp_path: Path) -> None:
    conf = tmp_path / "config"
    conf.write_text("lxc.include = gpu.conf\n")
    mount = "lxc.mount.entry = /dev dev none rbind\n"
    (tmp_path / "gpu.conf").write_text(mount)
    assert doctor(conf)[0] == 0
    (tmp_path / "gpu.conf").unlink()
    assert doctor(conf)[0] == 11
    os.mkfifo(tmp_path / "gpu.conf")
    assert doctor(conf)[0] == 11


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "utf16").write_bytes("dev0: /dev/nvidia0\n".encode("utf-16"))
    for name in ("missing", "fifo", "."):
        argv = ["doctor", "--container-conf", str(tmp_path / name)]
        assert isinstance(CliRunner().invoke(app, argv).exception, UsageError)
    assert doctor(tmp_path / "utf16")[1]["findings"][0]["verdict"] == "ok"


def test_options_that_belong_together() -> None:
    for argv in (["doctor", "--host", "x"], ["doctor", "-p", "demo", "--devices", "x"]):
        assert isinstance(CliRunner().invoke(app, argv).exception, UsageError)


def test_away_from_a_node_its_control_groups_are_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from deployctl.engine.inspect import container_conf

    monkeypatch.setattr(container_conf, "HERE", tmp_path)
    argv = ["doctor", "--container-conf", str(PATHS / "path.conf"), "--json"]
    assert json.loads(CliRunner().invoke(app, argv).stdout)["cgroup"] is None
    argv += ["--cgroup", "1"]
    assert json.loads(CliRunner().invoke(app, argv).stdout)["cgroup"] == 1
