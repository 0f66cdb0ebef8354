"""`deployctl adopt`: a server that was started by hand becomes a profile's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from deployctl.cli import options, output
from deployctl.errors import UsageError

SCHEMA = "deployctl.adopted/1"


def register(app: typer.Typer) -> None:
    """Add this file's command."""
    app.command()(adopt)


def adopt(
    host: Annotated[
        str,
        typer.Argument(
            metavar="HOST",
            help="A host file's name, or a machine as ssh takes it: HOST, USER@HOST, "
            "USER@HOST:PORT or ssh://USER@HOST:PORT; an IPv6 address with a port in brackets.",
        ),
    ],
    pid: Annotated[int | None, typer.Option(metavar="PID", help="The server's process.")] = None,
    port: Annotated[
        int | None, typer.Option(metavar="PORT", min=1, max=65535, help="The server's port.")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The profile; default ./profiles/NAME.yaml."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The profile's name; else the model's.")] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            "-p",
            help="Write no profile: record the running server for this one again.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write the profile of a vLLM server that was started by hand, and record that server as the
    release that `up` restores when the first release fails. The server itself is not touched.

    Examples: deployctl adopt gpu1; deployctl adopt gpu1 --port 8001 -o profiles/chat.yaml
    """
    from deployctl.config.loader import load_profile
    from deployctl.engine.init import adopt as adopting

    settings, texts = adopting.host_named(host)
    known = None
    if profile is not None:
        if to is not None or name is not None:
            raise UsageError("--profile writes no file: --output and --name do not belong to it")
        known = load_profile(profile, environ=os.environ).profile
        named = [one for one in known.hosts if one.name == settings.name]
        if not named:
            hosts = ", ".join(one.name for one in known.hosts)
            raise UsageError(
                f"{settings.name} is not a host of {known.name}", next=f"one of: {hosts}"
            )
        settings, texts = named[0], {}
    with adopting.likely(host):
        found = adopting.adopt(
            settings, texts, pid=pid, port=port, output=to, name=name, profile=known
        )
    document = {
        "schema": SCHEMA,
        "host": settings.name,
        "profile": found.profile,
        "server": found.server,
        "release": found.release,
        "files": [str(path) for path in found.files],
        "notes": found.notes,
    }
    lines = [f"wrote {path}" for path in found.files]
    lines += [
        f"server on {settings.name}: {found.server}",
        f"recorded as release {found.release}: `up` restores it if the first release fails",
    ]
    output.show(document, lines, as_json)
    for note in found.notes:
        output.warn(note)
    shown = found.files[0] if found.files and to is not None else found.profile
    output.note(f"next: deployctl plan --profile {shown}")
