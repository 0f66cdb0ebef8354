"""deployctl drafter: the drafter's config.json on the hosts of a profile, or in a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deployctl.cli import options, output, running
from deployctl.cli.command import Commands, Group
from deployctl.errors import Undecided, UsageError

if TYPE_CHECKING:
    from deployctl.config.profile import Profile as Settings
    from deployctl.engine.inspect.drafters import InUse

app = Commands(
    cls=Group,
    help="Show, check or change a drafter's config.json.",
    no_args_is_help=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
DIFFERS = 6
File = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="A config.json here, or its folder.")
]
Profile = Annotated[
    str | None, typer.Option("--profile", "-p", help="Profile name or file: look on its hosts.")
]
Assignments = Annotated[list[str], typer.Argument(metavar="[FILE] KEY=VALUE...")]


NEXT_START = (
    "a running server has already read its config: a restart would load this one, and the next "
    "deployctl up restores the profile's values"
)


@app.callback(invoke_without_command=True)
def drafter(
    context: typer.Context,
    profile: Profile = None,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Without a command: make the config on the hosts the wanted one, and read it back."""
    if context.invoked_subcommand is not None:
        return
    if profile is None:
        raise UsageError("no profile given", next="deployctl drafter --profile NAME")
    running.perform(
        profile,
        running.playbook_of("fetch", "drafter"),
        sets=sets,
        hosts=hosts,
        as_json=as_json,
        quiet=quiet,
    )


@app.command()
def show(
    context: typer.Context,
    file: File = None,
    profile: Profile = None,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    as_json: options.Json = False,
) -> None:
    """Show the config in use.

    Example: deployctl drafter show -p mine
    """
    given = _given(context, profile, sets, hosts, as_json)
    configs = _configs(file, given)
    if given.as_json:
        _print_json(configs)
        return
    for config in configs:
        if len(configs) > 1:
            output.answer([f"# {config.host}: {config.path}"])
        output.answer_text(config.text.removesuffix("\n") + "\n")


@app.command()
def diff(
    context: typer.Context,
    file: File = None,
    profile: Profile = None,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    as_json: options.Json = False,
) -> None:
    """Show how the config in use differs from the wanted one (exit 6 where it does).

    With a FILE and a profile, the file is compared with the profile's drafter.config.

    Example: deployctl drafter diff -p mine
    """
    given = _given(context, profile, sets, hosts, as_json)
    if given.profile is None:
        raise UsageError("diff needs --profile: the profile has the wanted values")
    configs = _configs(file, given)
    if given.as_json:
        _print_json(configs)
    else:
        for config in configs:
            if not config.differences():
                output.answer([f"{config.host}: as wanted: {config.path}"])
            for found in config.differences():
                shown = [json.dumps(found[side]) for side in ("actual", "wanted")]
                differs = f"{config.host}: {found['key']}: {shown[0]}, wanted {shown[1]}"
                output.answer([differs])
    raise typer.Exit(DIFFERS if any(s.differences() for s in configs) else 0)


@app.command()
def check(
    context: typer.Context,
    file: File = None,
    profile: Profile = None,
    target: Annotated[
        Path | None,
        typer.Option(
            "--target",
            help="With a FILE: the target's folder or config.json. Alone: the drafter in it.",
        ),
    ] = None,
    tokens: Annotated[int, typer.Option(min=1, help="With a FILE: draft tokens.")] = 1,
    method: Annotated[
        str | None,
        typer.Option(help="With a FILE: the drafting method; it may follow from the file."),
    ] = None,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    as_json: options.Json = False,
) -> None:
    """Check whether the config can work with its target, and is as the profile wants it (exit 6
    where a check fails, 11 where nothing could be checked).

    Example: deployctl drafter check config.json --target /models/target
    """
    from deployctl.engine.inspect import drafters
    from deployctl.vllm.drafters import methods

    given = _given(context, profile, sets, hosts, as_json)
    if given.profile is None and (method is None or methods.of(method).own):
        file = file or target
    if file is not None:
        configs = [drafters.check_file(file, target, method, tokens, given.overrides())]
    else:
        configs = _configs(None, given)
    if given.as_json:
        _print_json(configs)
    else:
        for config in configs:
            for found in config.checks:
                said = f": {found.message}" if found.message else ""
                output.answer([f"{config.host}: {found.verdict:7} {found.name}{said}"])
    verdicts = {check.verdict for config in configs for check in config.checks}
    # What was not checked has not passed.
    undecided = Undecided.exit_code if verdicts == {"unknown"} else 0
    raise typer.Exit(DIFFERS if "error" in verdicts else undecided)


@app.command("set")
def set_keys(
    context: typer.Context,
    words: Assignments,
    profile: Profile = None,
    new: Annotated[
        bool, typer.Option("--new", help="Allow new keys: not in the file, and unknown to DFlash.")
    ] = False,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    as_json: options.Json = False,
) -> None:
    """Change keys where they live, whole or not at all: `set config.json block_size=8`.

    On hosts it changes what the current release reads at its next start; the next `up` puts the
    profile's own values back.

    Example: deployctl drafter set config.json block_size=8
    """
    from deployctl.engine.inspect import drafters

    given = _given(context, profile, sets, hosts, as_json)
    loaded = given.load()
    if loaded is not None:
        done = drafters.set_on_hosts(loaded, drafters.assignments(words), new)
        made = [(config.host, desired) for config, desired in done]
    else:
        file, *rest = words
        if "=" in file or not rest:
            raise UsageError("name a file, then KEY=VALUE: set config.json block_size=8")
        made = [(file, drafters.set_in_file(Path(file), drafters.assignments(rest), new))]
    if given.as_json:
        changes = [{"where": w, "changed": [asdict(c) for c in d.changed]} for w, d in made]
        document = {"schema": "deployctl.drafter-set/1", "configs": changes}
        output.say_document(document)
        return
    if loaded is not None:
        output.note(NEXT_START)
    for where, desired in made:
        output.say(
            f"{where}: {change.key}: {json.dumps(change.old)} -> {json.dumps(change.new)}"
            for change in desired.changed
        )
        if not desired.changed:
            output.say([f"{where}: nothing to change"])


@dataclass(frozen=True)
class _Given:
    """The options of a subcommand, with those that stand before its name."""

    profile: str | None
    sets: Sequence[str]
    hosts: Sequence[str]
    as_json: bool

    def load(self) -> Settings | None:
        return None if self.profile is None else running.load(self.profile, self.sets, self.hosts)

    def overrides(self) -> dict[str, Any] | None:
        """What the profile wants of a config.json; None without a profile."""
        loaded = self.load()
        if loaded is None:
            return None
        return dict(loaded.drafter.config) if loaded.drafter is not None else {}


def _given(
    context: typer.Context,
    profile: str | None,
    sets: Sequence[str],
    hosts: Sequence[str],
    as_json: bool,
) -> _Given:
    before = context.parent.params if context.parent is not None else {}
    return _Given(
        profile if profile is not None else before.get("profile"),
        [*before.get("sets", ()), *sets],
        [*before.get("hosts", ()), *hosts],
        as_json or bool(before.get("as_json")),
    )


def _configs(file: Path | None, given: _Given) -> list[InUse]:
    from deployctl.engine.inspect import drafters

    if file is not None:
        return [drafters.in_file(file, given.overrides())]
    loaded = given.load()
    if loaded is None:
        raise UsageError("nothing to look at: give a FILE, or --profile NAME for its hosts")
    return drafters.on_hosts(loaded)


def _print_json(configs: Sequence[InUse]) -> None:
    document = {"schema": "deployctl.drafter/1", "configs": [s.document() for s in configs]}
    output.answer_document(document)
