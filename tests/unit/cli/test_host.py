"""`host explain`: what of ssh_config decides how a host is reached, without connecting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deployctl.cli.app import app


def explain(config: Path, name: str = "gpu") -> tuple[int, Any]:
    done = CliRunner().invoke(app, ["host", "explain", name, "-F", str(config), "--json"])
    return done.exit_code, json.loads(done.stdout)


@pytest.mark.parametrize(
    ("line", "way", "code"),
    [
        ("HostName 10.0.0.1", "deployctl", 0),
        ("CertificateFile /c", "ssh", 0),
        ("PubkeyAuthentication no", "refused", 4),
        ("UserKnownHostsFile {known}", "ssh", 0),
    ],
)
def test_the_way(tmp_path: Path, line: str, way: str, code: int) -> None:
    known = tmp_path / "known"
    known.write_text("@cert-authority gpu ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA==\n")
    config = tmp_path / "config"
    config.write_text(f"Host gpu\n  {line.format(known=known)}\n")
    got, document = explain(config)
    (one,) = document["ways"]
    assert (got, one["way"]) == (code, way)
    assert bool(one["because"]) == (way != "deployctl")
    assert {o["verdict"] for o in one["options"]} <= {"honoured", "harmless", "refused"}
    text = CliRunner().invoke(app, ["host", "explain", "gpu", "-F", str(config)]).stdout
    assert "honoured by deployctl" in text and "harmless" in text


def test_a_host_file_and_its_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = tmp_path / "profiles/hosts"
    hosts.mkdir(parents=True)
    (hosts / "ct.yaml").write_text("container: {id: '129'}\nnode: pve\n")
    (hosts / "pve.yaml").write_text("ssh: {address: pve1, user: root}\n")
    (hosts / "here.yaml").write_text("local: true\n")
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "config"
    config.write_text("Host pve1\n  ProxyUseFdpass yes\n  ProxyCommand x\n")
    _, document = explain(config, "ct")
    assert [(w["host"], w["address"], w["way"]) for w in document["ways"]] == [
        ("pve", "pve1", "ssh")
    ]
    assert explain(config, "here") == (0, {**document, "host": "here", "ways": []})
