"""`deployctl init`: a profile from what people already have."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from deployctl.cli import output
from deployctl.errors import HostError, UsageError


def register(app: typer.Typer) -> None:
    """Add this file's command."""
    app.command()(init)


def init(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The file that --from names a kind of.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="COMMAND|KIND",
            help="A `vllm serve …` command, or the kind of FILE: script, unit, compose, recipe.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The profile's name; else the model's.")] = None,
    ssh: Annotated[
        str | None,
        typer.Option(
            metavar="HOST",
            help="Serve on this host: a host file's name, or a machine as ssh takes it: HOST, "
            "USER@HOST, USER@HOST:PORT or ssh://USER@HOST:PORT; an IPv6 address with a port in "
            "brackets.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="A folder on the host, or OWNER/NAME on the hub."),
    ] = None,
    drafter: Annotated[
        str | None, typer.Option(metavar="MODEL", help="With --model: its drafter.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="With --model: default 8000.")
    ] = None,
    offline: Annotated[
        bool,
        typer.Option(
            "--offline",
            help="With --model: do not ask the host; vLLM's defaults are left as they are.",
        ),
    ] = False,
) -> None:
    """Write ./profiles/NAME.yaml, validated, and never over another file. With --model the host is
    asked for the model's config and its GPUs, and each proposed value has its reason; a host that
    is not reached is an error, and nothing is written. On a terminal it asks for what is missing.

    Examples: deployctl init --from 'vllm serve Qwen/Qwen3-8B --port 8000' --ssh gpu1;
    deployctl init --from compose docker-compose.yml;
    deployctl init --model Qwen/Qwen3-8B --ssh gpu1
    """
    from deployctl.engine.init import adopt, files, profile_text, shell, wanted, written

    if source is None and model is None:
        model, ssh, port, drafter = _asked(ssh, port, drafter)
    if source is not None and (model or drafter or port):
        raise UsageError("--from has the model: --model, --drafter and --port do not belong to it")
    host, hosts = adopt.host_named(ssh or "local")
    if source is None:
        assert model is not None, "it was given or asked for"
        asked = wanted.Wanted(model, port or profile_text.PORT, drafter)
        with adopt.likely(ssh or host.name), _offline_too():
            given = wanted.given(asked, host, offline=offline)
        said = f"model {model} on {host.name}"
    elif source in files.READERS:
        if file is None:
            raise UsageError(f"--from {source} needs a file", next=f"init --from {source} FILE")
        given, said = files.READERS[source](_text(file), str(file)), str(file)
    elif file is not None:
        raise UsageError(
            f"{source!r} is not a kind of file", next="one of: " + ", ".join(files.READERS)
        )
    else:
        given, said = shell.read(source, "the command line"), source
    made = profile_text.draft(given, name, host.name, said)
    for path in written.write(made, Path("profiles"), hosts):
        output.answer([f"wrote {path}"])
    for note in made.notes:
        output.warn(note)
    output.note(f"next: deployctl plan --profile {made.name}")


@contextmanager
def _offline_too() -> Iterator[None]:
    try:
        yield
    except HostError as error:
        error.next = f"{error.next}; nothing was written: init --offline does not ask the host"
        raise


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


def _asked(
    ssh: str | None, port: int | None, drafter: str | None
) -> tuple[str, str | None, int, str | None]:
    """Ask for what is missing where a person is there; a pipe is never asked."""
    if not sys.stdin.isatty():
        raise UsageError("nothing to start from", next="deployctl init --from 'vllm serve MODEL …'")
    model = typer.prompt("Model (a folder on the host, or OWNER/NAME)")
    if ssh is None:
        named = typer.prompt("Host (a host file, or any name given to ssh)", default="local")
        ssh = None if named == "local" else named
    if port is None:
        port = typer.prompt("Port", default=8000, type=int)
    if drafter is None:
        drafter = typer.prompt("Drafter (empty: none)", default="", show_default=False) or None
    return model, ssh, int(port), drafter
