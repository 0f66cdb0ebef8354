"""`deployctl init`: a profile from what people already have."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from deployctl.cli import output
from deployctl.errors import UsageError


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
        typer.Option(metavar="ADDRESS", help="Serve on this host, as you would name it to ssh."),
    ] = None,
) -> None:
    """Write ./profiles/NAME.yaml, validated, and never over another file.

    Examples: deployctl init --from 'vllm serve Qwen/Qwen3-8B --port 8000' --ssh gpu1;
    deployctl init --from compose docker-compose.yml
    """
    from deployctl.engine.init import files, profile_text, shell, written

    if source is None:
        source = _asked()
    if source in files.READERS:
        if file is None:
            raise UsageError(f"--from {source} needs a file", next=f"init --from {source} FILE")
        given, said = files.READERS[source](_text(file), str(file)), str(file)
    elif file is not None:
        raise UsageError(
            f"{source!r} is not a kind of file", next="one of: " + ", ".join(files.READERS)
        )
    else:
        given, said = shell.read(source, "the command line"), source
    hosts = {}
    host = "local"
    if ssh is not None:
        host = profile_text.label(ssh.rpartition("@")[2])
        hosts[host] = f"name: {host}\nssh: {{address: {ssh}}}   # as ssh would take it\n"
    made = profile_text.draft(given, name, host, said)
    for path in written.write(made, Path("profiles"), hosts):
        output.answer([f"wrote {path}"])
    for note in made.notes:
        output.warn(note)
    output.note(f"next: deployctl plan --profile {made.name}")


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


def _asked() -> str:
    """Ask for the model where a person is there; a pipe is never asked."""
    if not sys.stdin.isatty():
        raise UsageError("nothing to start from", next="deployctl init --from 'vllm serve MODEL …'")
    model = typer.prompt("Model (a folder on the host, or OWNER/NAME)")
    port = typer.prompt("Port", default=8000, type=int)
    return f"vllm serve {model} --port {port} --host 127.0.0.1"
