"""Values from the environment and the command line: paths, types, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from deployctl.config.overrides import near_misses
from deployctl.config.profile import Profile
from deployctl.errors import ConfigError, UsageError
from tests.unit.config.conftest import Folder

DRAFTER = """\
drafter:
  method: dflash
  model: {path: /d}
  num_speculative_tokens: 7
  config: {dflash_config.mask_token_id: 3}
serve: {port: 8000, args: {max-num-seqs: 8}, secrets: {HF_TOKEN: {env: A}}}
"""


def at(data: Any, *path: str | int) -> Any:
    for token in path:
        data = data[token]
    return data


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("serve.port=30001", ("serve", "port"), 30001),
        ("build.python=3.10", ("build", "python"), "3.10"),
        ("serve.dtype=", ("serve", "dtype"), None),
        ("serve.dtype=null", ("serve", "dtype"), None),
        ("serve.ready.stall=2m", ("serve", "ready", "stall"), 120.0),
        ("serve.gpus=[0, 1]", ("serve", "gpus"), [0, 1]),
        ("serve.args.max-num-seqs=4", ("serve", "args"), {"max-num-seqs": 4}),
        ("serve.args.enforce-eager=true", ("serve", "args", "enforce-eager"), True),
        ("serve.args={}", ("serve", "args"), {}),
        ("serve.env.A=1", ("serve", "env"), {"A": "1"}),
        ("serve.secrets.B.env=C", ("serve", "secrets", "B"), {"env": "C"}),
        ("hosts.0.root=/srv", ("hosts", 0, "root"), "/srv"),
        ("hosts.0.ssh.address=box", ("hosts", 0, "ssh", "address"), "box"),
        (
            "drafter.config.dflash_config.x=4",
            ("drafter", "config"),
            {"dflash_config.mask_token_id": 3, "dflash_config.x": 4},
        ),
        ("description=a=b", ("description",), "a=b"),
        ("build.source.pr=40898", ("build", "source", "pr"), 40898),
    ],
)
def test_set(folder: Folder, text: str, path: tuple[str | int, ...], value: Any) -> None:
    folder.profile("p", DRAFTER)
    loaded = folder.load("p", text)
    assert at(loaded.profile.model_dump(), *path) == value
    if not isinstance(value, dict):
        assert str(loaded.origins[".".join(map(str, path))]) == "--set"


@pytest.mark.parametrize(
    ("name", "text", "path", "value"),
    [
        ("SERVE__PORT", "30001", ("serve", "port"), 30001),
        ("serve__port", "30001", ("serve", "port"), 30001),
        ("PLAYBOOK", "./x.yaml", ("playbook",), "./x.yaml"),
        ("SERVE__ARGS__MAX_NUM_SEQS", "4", ("serve", "args"), {"max-num-seqs": 4}),
        ("SERVE__ARGS__SEED", "4", ("serve", "args", "seed"), 4),
        ("SERVE__ENV__VLLM_USE_V1", "1", ("serve", "env"), {"VLLM_USE_V1": "1"}),
        ("SERVE__SECRETS__HF_TOKEN__ENV", "B", ("serve", "secrets", "HF_TOKEN", "env"), "B"),
        ("SERVE__SECRETS__MY_KEY__ENV", "B", ("serve", "secrets", "MY_KEY", "env"), "B"),
        ("HOSTS__0__ROOT", "/srv", ("hosts", 0, "root"), "/srv"),
        (
            "DRAFTER__CONFIG__DFLASH_CONFIG__MASK_TOKEN_ID",
            "4",
            ("drafter", "config"),
            {"dflash_config.mask_token_id": 4},
        ),
        (
            "DRAFTER__SPECULATIVE__ATTENTION_BACKEND",
            "x",
            ("drafter", "speculative"),
            {"attention_backend": "x"},
        ),
    ],
)
def test_environment(
    folder: Folder, name: str, text: str, path: tuple[str | int, ...], value: Any
) -> None:
    folder.profile("p", DRAFTER)
    loaded = folder.load("p", **{f"DEPLOYCTL_{name}": text})
    assert at(loaded.profile.model_dump(), *path) == value
    if not isinstance(value, dict):
        assert str(loaded.origins[".".join(map(str, path))]) == f"environment DEPLOYCTL_{name}"


def test_the_command_line_goes_before_the_environment(folder: Folder) -> None:
    folder.profile("p", "")
    loaded = folder.load("p", "serve.port=1", DEPLOYCTL_SERVE__PORT="2")
    assert loaded.profile.serve.port == 1


def test_variables_that_are_no_overrides_are_left_alone(folder: Folder) -> None:
    folder.profile("p", "")
    folder.load(
        "p", DEPLOYCTL_PROFILE="demo", DEPLOYCTL_LOG="x", DEPLOYCTLX__A="y", SERVE__PORT="1"
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("DEPLOYCTL_SERVE_PORT", "DEPLOYCTL_SERVE__PORT"),
        ("DEPLOYCTL_SERVE_READY_STALL", "DEPLOYCTL_SERVE__READY__STALL"),
        ("DEPLOYCTL_SERVE_ARGS_MAX_NUM_SEQS", "DEPLOYCTL_SERVE__ARGS__MAX_NUM_SEQS"),
        ("DEPLOYCTL_MODEL_SERVED_NAME", "DEPLOYCTL_MODEL__SERVED_NAME"),
        ("DEPLOYCTL_SERVE__PORT", None),
        ("DEPLOYCTL_PROFILE", None),
        ("DEPLOYCTL_PLAYBOOK", None),
        ("DEPLOYCTL_LOG", None),
        ("DEPLOYCTL_SERVER_COLOUR", None),
        ("SERVE_PORT", None),
    ],
)
def test_single_underscores_are_noticed(name: str, meant: str | None) -> None:
    said = near_misses({name: "1"}, Profile)
    expected = f"{name} sets nothing; did you mean {meant} (two underscores)?"
    assert said == ([] if meant is None else [expected])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("serve.prot=1", "--set serve.prot: serve has no key prot; did you mean port?"),
        ("srv.port=1", "--set srv.port: a profile has no key srv; did you mean serve?"),
        (
            "serve.port.x=1",
            "--set serve.port.x: serve.port is a plain value without keys",
        ),
        (
            "hosts.1.root=x",
            "--set hosts.1.root: hosts is a list with items 0 to 0; 1 is not one of them",
        ),
        (
            "hosts.here.root=x",
            "--set hosts.here.root: hosts is a list with items 0 to 0; here is not one of them",
        ),
        (
            "fixes.require.0=x",
            "--set fixes.require.0: fixes.require is a list with no items; 0 is not one of them",
        ),
        ("extends=x", "--set extends: extends can be set in a file only"),
        ("serve.port", "--set serve.port: not PATH=VALUE"),
        ("=1", "--set =1: not PATH=VALUE"),
        ("serve..port=1", "--set serve..port=1: not PATH=VALUE"),
        ("serve.gpus=[0", "--set serve.gpus: the value is not YAML"),
        ("serve.zzz=1", "--set serve.zzz: serve has no key zzz; it has host, port, gpus, "),
    ],
)
def test_a_path_that_leads_nowhere_is_a_usage_error(folder: Folder, text: str, told: str) -> None:
    folder.profile("p", "")
    with pytest.raises(UsageError) as error:
        folder.load("p", text)
    assert error.value.what.startswith(told)
    assert error.value.exit_code == 2


def test_wrong_values_and_variables_are_told_by_their_origin(folder: Folder) -> None:
    folder.profile("p", "")
    with pytest.raises(ConfigError) as error:
        folder.load(
            "p",
            "serve.port=high",
            DEPLOYCTL_SERVE__PRT="1",
            DEPLOYCTL_BUILD__MAX_JOBS="0",
        )
    assert error.value.why.splitlines() == [
        "--set: serve.port: needs a whole number, not the text 'high'",
        "environment DEPLOYCTL_BUILD__MAX_JOBS: build.max_jobs: "
        "should be greater than or equal to 1, not 0",
        "environment DEPLOYCTL_SERVE__PRT: serve.prt: serve has no key prt; did you mean port?",
    ]


def test_a_broken_value_in_a_variable_is_told(folder: Folder) -> None:
    folder.profile("p", "")
    with pytest.raises(ConfigError, match=r"DEPLOYCTL_SERVE__GPUS:1:\d+: while parsing"):
        folder.load("p", DEPLOYCTL_SERVE__GPUS="[0")


def test_two_alternatives_of_one_layer_contradict_each_other(folder: Folder) -> None:
    folder.profile("p", "")
    with pytest.raises(ConfigError) as error:
        folder.load("p", "build.source.pr=1", "build.source.ref=main")
    assert error.value.why == (
        "profiles/smallest.yaml:4:3: build.source: "
        "give exactly one of release, pr, ref, wheel, path; found pr and ref"
    )


def test_a_host_by_name_from_outside(folder: Folder) -> None:
    folder.write("work/profiles/hosts/other.yaml", "ssh: {address: other}\n")
    folder.profile("p", "")
    (host,) = folder.load("p", "hosts=[other]").profile.hosts
    assert host.name == "other"
    (host,) = folder.load("p", DEPLOYCTL_HOSTS__0="other").profile.hosts
    assert host.name == "other"


def test_a_profile_of_the_wrong_kind_is_told_and_not_covered_up(folder: Folder) -> None:
    folder.profile("p", "serve: 5\n")
    with pytest.raises(ConfigError, match=r"p.yaml:2:8: serve: needs a mapping with host, port"):
        folder.load("p")
    with pytest.raises(UsageError, match="serve is not a mapping in the profile"):
        folder.load("p", "serve.port=1")
