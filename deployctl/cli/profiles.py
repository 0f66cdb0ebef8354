"""`deployctl profile …`: which profiles there are, what they say and whether they are valid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from deployctl.cli import output
from deployctl.cli.command import Commands

app = Commands(help="Show and check profiles.", no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A profile's name or file.")]
Sets = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Override one value, e.g. serve.port=30001."),
]
Json = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document on stdout.")]


class Document(StrEnum):
    """The kinds of file that have a schema."""

    PROFILE = "profile"
    HOST = "host"
    GROUP = "group"
    PLAYBOOK = "playbook"


@app.command("list")
def list_command(as_json: Json = False) -> None:
    """List every profile, playbook and host, and where it comes from.

    Example: deployctl profile list
    """
    from deployctl.config import catalogue

    found = catalogue.entries()
    if as_json:
        _print_json(catalogue.as_document(found))
    else:
        output.answer(catalogue.as_table(found).split("\n"))


@app.command()
def show(
    name: Name,
    origin: Annotated[
        bool, typer.Option("--origin", help="Show where each value comes from.")
    ] = False,
    as_json: Json = False,
    sets: Sets = [],
) -> None:
    """Show the resolved profile: extended, with its hosts in place and every default written out.

    Example: deployctl profile show demo --origin
    """
    from deployctl.config import show as shown
    from deployctl.config.loader import load_profile
    from deployctl.engine.inspect.proxmox import readers

    loaded = load_profile(name, sets=sets, readers=readers())
    if as_json:
        _print_json(shown.as_document(loaded))
    else:
        output.answer_text(shown.as_yaml(loaded, origin) + "\n")


@app.command()
def schema(
    document: Annotated[Document, typer.Argument(help="Which kind of file.")] = Document.PROFILE,
) -> None:
    """Print a JSON Schema for editors.

    Example: deployctl profile schema host
    """
    from deployctl.config.schema import json_schema
    from deployctl.steps import registry

    _print_json(json_schema(document.value, registry.options()))


@app.command()
def validate(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]…", help="Profiles; all when absent.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check profiles without touching a host; without names, everything that can be named.

    Example: deployctl profile validate mine
    """
    from deployctl.config import catalogue
    from deployctl.errors import ConfigError
    from deployctl.steps import registry

    checked = []
    for found in catalogue.chosen(names or []):
        error = catalogue.check(found, registry.options())
        checked.append(
            {
                "kind": found.word,
                "name": found.name,
                "file": str(found.file),
                "valid": not error,
                "problems": error.splitlines(),
                "warnings": [] if error else catalogue.warnings(found),
            }
        )
    if as_json:
        _print_json({"schema": "deployctl.validation/1", "files": checked})
    else:
        output.answer(line for one in checked for line in _verdict(one))
    broken = sum(not one["valid"] for one in checked)
    if not broken:
        return
    if as_json:
        raise typer.Exit(ConfigError.exit_code)
    raise ConfigError(f"{broken} invalid", "", "Correct the errors shown above.")


def _verdict(checked: Mapping[str, Any]) -> Iterator[str]:
    verdict = "valid" if checked["valid"] else "invalid"
    yield f"{verdict:<8} {checked['kind']} {checked['name']}  {checked['file']}"
    yield from (f"    {line}" for line in checked["problems"])
    yield from (f"    warning: {line}" for line in checked["warnings"])


@app.command()
def path(name: Name) -> None:
    """Print the path of a profile's file."""
    from deployctl.config.search import default_search

    output.answer([str(default_search().locate("profiles", name).path.absolute())])


def _print_json(document: object) -> None:
    output.answer_document(document)
