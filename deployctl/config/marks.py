"""Which values of a profile are code, or send something away: words behind them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployctl.config.problems import KeyPath

_ANY = "*"
_BUILT = "code of it runs on the host, in the build and as the server"
_INSTALLED = "installed into the release: code that runs on the host"
_SSH = "ssh_config: its Match exec and ProxyCommand are programs that run here"
_AGENT = "a program that runs on the host"
_LEAVES = "the value of this variable goes to the host"
_MODEL = "its Python files run on the host: serve.args.trust-remote-code"
_MARKS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("playbook",), "its hooks are programs; deployctl plan shows them"),
    (("hosts", _ANY, "python"), _AGENT),
    (("hosts", _ANY, "ssh", "address"), _SSH),
    (("hosts", _ANY, "ssh", "config_file"), _SSH),
    (("hosts", _ANY, "node", "python"), _AGENT),
    (("hosts", _ANY, "node", "ssh", "address"), _SSH),
    (("hosts", _ANY, "node", "ssh", "config_file"), _SSH),
    (("build", "source", "release"), _BUILT),
    (("build", "source", "pr"), f"{_BUILT}; whoever opened it wrote it"),
    (("build", "source", "ref"), _BUILT),
    (("build", "source", "wheel"), _BUILT),
    (("build", "source", "path"), _BUILT),
    (("build", "base"), _BUILT),
    (("build", "wheels"), _INSTALLED),
    (("build", "overrides"), _INSTALLED),
    (("build", "extra"), _INSTALLED),
    (("serve", "secrets", _ANY, "env"), _LEAVES),
    (("serve", "api_key", "env"), f"{_LEAVES}, and with each request of ours"),
    (("notify", _ANY, "webhook", "env"), "reports go to the URL in this variable"),
)
_OF_TRUSTED_MODELS = (("model", "repo"), ("model", "path"), ("drafter", "model", "repo"))
_DEFAULTS: tuple[Any, ...] = (None, [], "python3")


def trusts_remote_code(args: Mapping[str, Any]) -> bool:
    """Whether a server of these options runs Python files that lie in its model."""
    return args.get("trust-remote-code", False) is not False


def mark(path: KeyPath, value: Any, profile: Mapping[str, Any]) -> str:
    """What a reader should know of the value at a path of a profile; empty for most."""
    if value in _DEFAULTS:
        return ""
    words = tuple(str(token) for token in path)
    for pattern, said in _MARKS:
        if len(pattern) == len(words) and all(
            one in (_ANY, word) for one, word in zip(pattern, words, strict=True)
        ):
            return said
    trusted = trusts_remote_code(profile["serve"]["args"])
    return _MODEL if trusted and words in _OF_TRUSTED_MODELS else ""
