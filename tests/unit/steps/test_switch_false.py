"""A switch that is false in a profile, from the file to the command: field case 23."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from deployctl.config.loader import load_profile
from deployctl.steps.interface import Deployment
from deployctl.steps.servers.serving import serve_settings
from deployctl.vllm.serving.command import command
from deployctl.vllm.serving.knowledge import Knowledge

CASE = Path(__file__).parents[2] / "cases" / "field" / "23-switch-false"


def rendered(*sets: str) -> list[str]:
    profile = load_profile("sw", sets=sets, environ={}).profile
    wanted = Deployment(profile, profile.hosts[0])
    return command(serve_settings(wanted, "vllm", "/models/none", None, Knowledge()))


def understood(argv: list[str]) -> argparse.Namespace:
    """What a parser of vLLM's kind takes from it: its switches are BooleanOptionalAction."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("--enable-prefix-caching", "--async-scheduling"):
        parser.add_argument(name, action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--compilation-config.cudagraph_mode", dest="mode")
    return parser.parse_known_args(argv)[0]


def test_false_reaches_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CASE)
    argv = rendered()
    assert {"--no-enable-prefix-caching", "--no-async-scheduling"} <= set(argv)
    found = understood(argv)
    assert (found.enable_prefix_caching, found.async_scheduling) == (False, False)
    assert found.mode == "FULL_DECODE_ONLY"


def test_true_and_null_of_an_override(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CASE)
    argv = rendered("serve.args.enable-prefix-caching=true", "serve.args.async-scheduling=null")
    assert "--enable-prefix-caching" in argv
    assert not [word for word in argv if "async-scheduling" in word]
