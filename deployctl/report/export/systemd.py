"""A systemd service that runs a deployed release without deployctl (systemd.service(5))."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deployctl.engine.inspect.exporting import STOP_MARGIN
from deployctl.report.export.interface import START_LIMIT


def render(
    name: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    secrets: Sequence[str] = (),
    grace: float = 20.0,
) -> str:
    """The unit file. `secrets` are names of variables that a file with mode 0600 must set;
    `grace` is in seconds."""
    lines = [
        "[Unit]",
        f"Description=vLLM server of profile {name}".replace("%", "%%"),
        "Wants=network-online.target",
        "After=network-online.target",
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={' '.join(quoted(word) for word in argv)}",
        *(f"Environment={quoted(f'{key}={value}', dollar=False)}" for key, value in env.items()),
    ]
    if secrets:
        lines += [
            f"# This file sets {', '.join(sorted(secrets))}; mode 0600.",
            f"EnvironmentFile=/etc/deployctl/{name}.env",
        ]
    lines += [
        "KillMode=mixed",
        f"TimeoutStartSec={START_LIMIT}",
        f"TimeoutStopSec={int(grace) + STOP_MARGIN}",
        "Restart=on-failure",
        "RestartSec=5",
        "LimitNOFILE=65536",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def quoted(word: str, dollar: bool = True) -> str:
    """One word as systemd's own quoting takes it: specifiers and, in a command, `$` doubled."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    if dollar:
        text = text.replace("$", "$$")
    plain = text == word and word and not set(word) & set(" \t';")
    return word if plain else f'"{text}"'
