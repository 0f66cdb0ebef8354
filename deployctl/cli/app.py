"""The command line: every command registered, every failure turned into lines and an exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer
from typer.exceptions import TyperException

from deployctl import __version__
from deployctl.cli import (
    adopt,
    build,
    clean,
    completion,
    deploy,
    drafter,
    explain,
    export,
    fixes,
    host,
    init,
    inspect,
    measure,
    output,
    profiles,
    releases,
    report,
    schedule,
    topics,
    tune,
    watch,
)
from deployctl.cli.command import Commands, refused
from deployctl.errors import DeployError, UsageError

app = Commands(
    name="deployctl",
    help="Deploy vLLM to GPU hosts, prove it serves, else keep the last good release.",
    epilog=(
        "Exit codes: 0 done or nothing to do, 1 internal error, 2 usage, 3 profile or playbook "
        "invalid, 4 host unreachable or access refused, 5 skipped: another run holds the lock, "
        "6 preflight to drafter failed, 7 not ready, 8 smoke failed, 9 acceptance failed, "
        "10 failed and the previous release was restored, 11 undecided, "
        "12 plan --detailed-exitcode: there are changes, 130 interrupted."
    ),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
deploy.register(app)
build.register(app)
fixes.register(app)
clean.register(app)
completion.register(app)
inspect.register(app)
watch.register(app)
explain.register(app)
releases.register(app)
measure.register(app)
tune.register(app)
report.register(app)
export.register(app)
init.register(app)
adopt.register(app)
topics.register(app)
app.add_typer(drafter.app, name="drafter")
app.add_typer(profiles.app, name="profile")
app.add_typer(schedule.app, name="schedule")
app.add_typer(host.app, name="host")


def _version(wanted: bool) -> None:
    if wanted:
        from deployctl.cli.version import commit

        built = commit()
        print(f"deployctl {__version__}" + (f" ({built})" if built else ""))
        raise typer.Exit


@app.callback()
def deployctl(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options before the command."""


def main() -> None:
    """Entry of the console script."""
    output.prepare()
    try:
        _look_around()
        code = app(standalone_mode=False)
    except DeployError as error:
        _tell(error)
        code = error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except TyperException as error:
        code = _usage(error)
    except BrokenPipeError:
        code = 0
    except Exception as error:
        code = _internal(error)
    output.settle()
    sys.exit(code if isinstance(code, int) else 0)


def _look_around() -> None:
    """Raise `UsageError` where the working directory was removed: nothing can be looked up."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise UsageError(
            "the working directory no longer exists",
            str(error),
            "change to one that exists",
        ) from error


def _tell(error: DeployError) -> None:
    output.note(f"error: {error.what}")
    if error.why:
        first, *rest = error.why.splitlines()
        for text in (f"  why: {first}", *(f"       {line}" for line in rest)):
            output.note(text)
    if error.next:
        output.note(f"  next: {error.next}")


def _usage(error: Any) -> int:
    """A wrong command line, in Typer's own words; as a document too, where one was asked for."""
    error.show()
    advice = "deployctl --help"
    missing = error.format_message().startswith("Missing option")
    if missing and getattr(getattr(error, "param", None), "name", "") == "profile":
        advice = _profiles(error)
        output.note(f"  next: {advice}")
    if "--json" in sys.argv:
        refusal = UsageError(error.format_message(), next=advice)
        output.say_document(refused(None, refusal))
    return int(error.exit_code)


def _profiles(error: Any) -> str:
    """The profiles that are found, and the command with one of them."""
    from deployctl.config.search import default_search

    known = [found.name for found in default_search().found("profiles")]
    example = known[0] if "demo" not in known else "demo"
    command = error.ctx.info_name if error.ctx is not None else "up"
    written = " ".join(("deployctl", str(command), "--profile", example))
    return f"profiles: {', '.join(known)}; for example: {written}"


def _internal(error: Exception) -> int:
    from deployctl import bugs

    _tell(bugs.internal("", error))
    return 1
