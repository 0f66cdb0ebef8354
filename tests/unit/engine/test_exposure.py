"""A plan shows what a profile would run, and where, and what would leave this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deployctl.config.loader import load_profile
from deployctl.config.playbook import Playbook
from deployctl.config.profile import Profile
from deployctl.config.show import as_yaml
from deployctl.engine.inspect import exposure
from deployctl.errors import ConfigError
from deployctl.report.summary import plan_lines

MODEL = {"repo": "a/b", "revision": "0" * 40, "served_name": "m"}


def profile(**given: Any) -> Profile:
    fields: dict[str, Any] = {
        "name": "p",
        "hosts": [{"name": "here", "local": True}],
        "model": MODEL,
        "build": {"source": {"pr": 40898}},
        "serve": {"port": 8000},
    }
    return Profile.model_validate(fields | given)


def playbook(**given: Any) -> Playbook:
    return Playbook.model_validate({"name": "up", "steps": ["launch"], **given})


def test_hooks_with_their_place_and_what_they_see() -> None:
    hooks = [
        {"run": ["/bin/warm", "a b"], "env": ["MINE", "OTHER"]},
        {"run": ["warm"], "where": "host", "env": ["MINE"]},
    ]
    found = exposure.document(
        profile(), playbook(steps=[{"step": "launch", "before": hooks}], after=[{"run": ["tell"]}])
    )
    told = {(one["where"], one["what"]) for one in found["programs"]}
    assert {("here", "/bin/warm 'a b'"), ("here", "warm"), ("here", "tell")} <= told
    assert [(one["name"], one["to"]) for one in found["variables"]] == [
        ("MINE", "the program /bin/warm, here"),
        ("OTHER", "the program /bin/warm, here"),
        ("MINE", "the program warm, here"),
    ]


def test_secrets_and_webhooks_leave() -> None:
    serve = {"port": 1, "secrets": {"HF_TOKEN": {"env": "MINE"}}, "api_key": {"env": "KEY"}}
    notify = [{"webhook": {"env": "HOOK"}}]
    found = exposure.variables(profile(serve=serve, notify=notify), playbook())
    assert [(one.name, one.named_by) for one in found] == [
        ("MINE", "serve.secrets.HF_TOKEN"),
        ("KEY", "serve.api_key"),
        ("HOOK", "notify.0.webhook"),
    ]


def test_the_build_of_a_pull_request_and_another_python() -> None:
    hosts = [{"name": "here", "local": True, "python": "/opt/python"}]
    found = {one.named_by: one.what for one in exposure.programs(profile(hosts=hosts), playbook())}
    assert "pull request 40898" in found["build.source"]
    assert found["hosts: here.python"] == "/opt/python"


@pytest.mark.parametrize(
    ("ssh_user", "source", "warned"),
    [
        ("root", {"pr": 40898}, True),
        ("root", {"ref": "main"}, True),
        ("build", {"pr": 40898}, False),
        ("root", {"release": "0.33.0"}, False),
    ],
)
def test_who_builds_code_of_others(ssh_user: str, source: Any, warned: bool) -> None:
    hosts = [{"name": "far", "ssh": {"address": "far", "user": ssh_user}}]
    made = profile(hosts=hosts, build={"source": source})
    assert any("runs as root on far" in said for said in exposure.warnings(made)) is warned
    found = [one.what for one in exposure.programs(made, playbook())]
    (build,) = [what for what in found if "build of" in what]
    if ssh_user == "root" and "release" not in source:
        assert "as deployctl-build (as root where" in build
        assert "the server of that vLLM, as root" in found
    else:
        assert build.endswith(f"and its server, as {ssh_user}")


@pytest.mark.parametrize(
    ("user", "build", "warned"),
    [
        ("root", "and its server, as root", "runs as root on far; a user"),
        ("builder", "as builder", "runs as root on far when it serves; a user"),
        (None, "as deployctl-build (as root where", "and in the build where deployctl-build"),
    ],
)
def test_build_user_is_shown(user: str | None, build: str, warned: str) -> None:
    hosts = [{"name": "far", "ssh": {"address": "far", "user": "root"}}]
    made = profile(hosts=hosts, build={"source": {"pr": 40898}, "user": user})
    found = [one.what for one in exposure.programs(made, playbook()) if "build of" in one.what]
    assert build in found[0]
    assert any(warned in said for said in exposure.warnings(made))


def test_a_container_is_entered_as_root() -> None:
    node = {"name": "node", "ssh": {"address": "node", "user": "admin"}}
    hosts = [{"name": "ct", "container": {"id": "1"}, "node": node}]
    found = [one.what for one in exposure.programs(profile(hosts=hosts), playbook())]
    assert any(what.endswith("as root") for what in found)


def test_what_an_ssh_config_runs(tmp_path: Path) -> None:
    (tmp_path / "inner").write_text('Match host x exec "inner-program"\n')
    config = tmp_path / "config"
    config.write_text(
        f"Include {tmp_path}/inn*\nMatch exec true\n  Port 1\nHost *\n  ProxyCommand way %h\n"
    )
    ssh = {"address": "far", "config_file": str(config)}
    hosts = [{"name": "far", "ssh": ssh}]
    found = [
        (one.where, one.what)
        for one in exposure.programs(profile(hosts=hosts), playbook())
        if one.named_by != "build.source"
    ]
    assert found[:2] == [("here", "true"), ("here", '"inner-program"')]
    assert found[2][1].startswith("way ")


@pytest.mark.parametrize(
    ("address", "warned"),
    [
        ("0.0.0.0", True),
        ("::", True),
        ("203.0.113.9", False),  # of documentation, and no more reachable than a private one
        ("8.8.8.8", True),
        ("10.0.0.3", False),
        ("100.64.1.2", False),
        ("fd00::1", False),
        ("127.0.0.1", False),
    ],
)
def test_a_router_that_others_reach_without_a_key_is_warned_of(address: str, warned: bool) -> None:
    found = [*exposure.warnings(profile(router={"address": address, "port": 9000}))]
    assert any("router.address" in said for said in found) is warned


@pytest.mark.parametrize(
    ("host", "key", "warned"),
    [
        ("0.0.0.0", None, True),
        ("::", None, True),
        ("[::]", None, True),
        ("10.0.0.3", None, True),
        ("gpu-box", None, True),
        ("0.0.0.0", {"env": "KEY"}, False),
        ("127.0.0.1", None, False),
        ("127.3.2.1", None, False),
        ("::1", None, False),
        ("localhost", None, False),
    ],
)
def test_a_server_that_anybody_may_use(host: str, key: Any, warned: bool) -> None:
    made = profile(
        serve={"host": host, "port": 7, "api_key": key}, build={"source": {"release": "0.33.0"}}
    )
    found = list(exposure.warnings(made))
    assert bool(found) is warned
    assert all("whoever reaches port 7 of here" in said for said in found)


def test_a_plan_tells_of_them() -> None:
    made = profile(serve={"host": "0.0.0.0", "port": 7, "secrets": {"A": {"env": "B"}}})
    document = {
        "hosts": [],
        "changes": False,
        "exposure": exposure.document(made, playbook(after=[{"run": ["tell"]}])),
    }
    lines = list(plan_lines(document))
    assert "  here: tell (playbook up: after)" in lines
    assert "  B -> here (serve.secrets.A)" in lines
    assert any(line.startswith("warning: serve.host is 0.0.0.0") for line in lines)


@pytest.mark.parametrize("revision", [None, "main", "0" * 39, "A" * 40])
@pytest.mark.parametrize("value", [True, None, "true"])
def test_code_of_a_model_needs_a_commit(revision: str | None, value: Any) -> None:
    serve = {"port": 1, "args": {"trust-remote-code": value}}
    with pytest.raises(ValueError, match="trust-remote-code runs code of this repository"):
        profile(serve=serve, model={**MODEL, "revision": revision})
    drafter = {"method": "dflash", "num_speculative_tokens": 3}
    source = {"repo": "a/c"} if revision is None else {"repo": "a/c", "revision": revision}
    with pytest.raises(ValueError, match="trust-remote-code runs code of this repository"):
        profile(serve=serve, drafter={**drafter, "model": source})
    profile(serve={"port": 1, "args": {"trust-remote-code": False}}, model=MODEL)
    told = [one.what for one in exposure.programs(profile(serve=serve), playbook())]
    assert "the Python files of the model a/b" in told


def test_profile_show_marks_code_and_what_leaves(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "extends: qwen36-dflash\nserve: {secrets: {HF_TOKEN: {env: MINE}}}\n", encoding="utf-8"
    )
    shown = as_yaml(load_profile(str(path), environ={})).splitlines()
    assert any("env: MINE" in line and "goes to the host" in line for line in shown)
    assert any("ref: dflash" in line and "code of it runs" in line for line in shown)
    # It is pinned as it ships; a branch in place of the commit is refused.
    trusting = ["serve.args.trust-remote-code=true"]
    load_profile(str(path), sets=trusting, environ={})
    with pytest.raises(ConfigError, match=r"drafter\.model\.revision"):
        load_profile(str(path), sets=[*trusting, "drafter.model.revision=main"], environ={})


@pytest.mark.parametrize(
    ("router", "warned"),
    [
        ({"port": 9000}, ""),
        ({"port": 9000, "address": "0.0.0.0"}, "add and remove replicas"),
        ({"port": 9000, "address": "0.0.0.0", "private_port": 9001}, ""),
        ({"engine": "external"}, "no replica is taken out of it"),
    ],
)
def test_a_router_that_anybody_may_change(router: dict[str, Any], warned: str) -> None:
    found = exposure.document(profile(router=router), playbook())
    said = [text for text in found["warnings"] if "router" in text]
    assert len(said) == bool(warned) and all(warned in text for text in said)
    programs = [one["what"] for one in found["programs"] if one["named_by"] == "router"]
    ours = router.get("engine") != "external"
    assert len(programs) == ours
    assert all(what.startswith("vllm-router 0.1.17 from the package index") for what in programs)
