"""Commands that measure what serves: smoke, acceptance, bench."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deployctl.cli import options, output, running
from deployctl.errors import StepError, UsageError

if TYPE_CHECKING:
    from deployctl.vllm.client.client import Client

Where = Annotated[
    str | None,
    typer.Option("--profile", "-p", envvar="DEPLOYCTL_PROFILE", help="What a profile serves."),
]
Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Any OpenAI-compatible server.")
]
Model = Annotated[
    str | None, typer.Option("--model", help="The model, where several are served or counted.")
]
KeyVariable = Annotated[
    str | None,
    typer.Option("--api-key-env", metavar="NAME", help="With --url: the variable with its key."),
]
CaFile = Annotated[
    Path | None,
    typer.Option("--ca-file", help="With --url: the certificate authority of its certificate."),
]
Compare = Annotated[
    Literal["plain"] | None,
    typer.Option(
        help="With --profile: start the same server without speculation beside it, and compare."
    ),
]
Evidence = Mapping[str, Any]


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    app.command()(smoke)
    app.command()(acceptance)
    app.command()(bench)


def smoke(
    profile: Where = None,
    url: Url = None,
    model: Model = None,
    api_key_env: KeyVariable = None,
    ca_file: CaFile = None,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    metrics_file: options.MetricsFile = None,
) -> None:
    """Ask the served model and check its answers.

    Example: deployctl smoke -p demo
    """
    _one_of({"--profile": profile, "--url": url})
    if url is None:
        running.perform(
            str(profile),
            running.playbook_of("smoke"),
            sets=sets,
            hosts=hosts,
            check_gates=True,
            as_json=as_json,
            quiet=quiet,
            metrics_file=metrics_file,
        )
    from deployctl.config.checks import SmokeSettings
    from deployctl.engine.measure import checks
    from deployctl.report.measured import smoke_lines

    with _client(str(url), api_key_env, ca_file) as client:
        name = checks.served_model(client, model)
        found = checks.smoke_of(client, name, SmokeSettings(), _teller(quiet))
    _leave("smoke", found, as_json, smoke_lines, checks.smoke_failure(str(url), found))


def acceptance(
    profile: Where = None,
    url: Url = None,
    log: Annotated[
        Path | None,
        typer.Option("--log", metavar="FILE", help="A server's log, read offline; - for stdin."),
    ] = None,
    metrics: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="BEFORE AFTER", help="Two readings of /metrics, offline."),
    ] = None,
    model: Model = None,
    api_key_env: KeyVariable = None,
    ca_file: CaFile = None,
    prompts: Annotated[
        str | None, typer.Option(help="With --url: code, math, chat, long-context, or a file.")
    ] = None,
    max_prompts: Annotated[
        int | None, typer.Option(min=1, help="With --url: ask at most this many prompts.")
    ] = None,
    compare: Compare = None,
    min_length: Annotated[
        float | None, typer.Option(min=1, help="Floor of the mean acceptance length.")
    ] = None,
    min_rate: Annotated[
        float | None, typer.Option(min=0, max=1, help="Floor of the acceptance rate.")
    ] = None,
    min_drafts: Annotated[
        int | None, typer.Option(min=1, help="Fewer drafts give no verdict.")
    ] = None,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    metrics_file: options.MetricsFile = None,
) -> None:
    """Measure how much of what the drafter proposes is accepted, and judge it.

    Example: deployctl acceptance --url http://127.0.0.1:8000
    """
    place = _one_of({"--profile": profile, "--url": url, "--log": log, "--metrics": metrics})
    if compare is not None and place != "--profile":
        raise UsageError(f"--compare goes with --profile, not with {place}")
    if place == "--profile":
        running.perform(
            str(profile),
            running.playbook_of(*("acceptance", "lossless")[: 1 if compare is None else 2]),
            sets=sets,
            hosts=hosts,
            check_gates=True,
            as_json=as_json,
            quiet=quiet,
            metrics_file=metrics_file,
        )
    from deployctl.config.checks import AcceptanceSettings
    from deployctl.engine.measure import checks, offline
    from deployctl.report.measured import acceptance_lines, acceptance_verdict

    given = {
        "prompts": prompts,
        "max_prompts": max_prompts,
        "min_length": min_length,
        "min_rate": min_rate,
        "min_drafts": min_drafts,
    }
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"--{name.replace('_', '-')} {value}: write a finite number")
    settings = AcceptanceSettings.model_validate(
        {key: value for key, value in given.items() if value is not None}
    )
    if log is not None:
        name, found = str(log), offline.acceptance_from_log(log, settings)
    elif metrics is not None:
        name = str(metrics[1])
        found = offline.acceptance_from_metrics(*metrics, settings, model)
    else:
        name = str(url)
        with _client(name, api_key_env, ca_file) as client:
            asked = checks.served_model(client, model)
            found = checks.acceptance_of(client, asked, settings, _counter(quiet))
    failure = checks.acceptance_failure(name, found)
    found = {**found, "verdict": acceptance_verdict(found)}
    _leave("acceptance", found, as_json, acceptance_lines, failure)


def bench(
    profile: Where = None,
    url: Url = None,
    plain_url: Annotated[
        str | None,
        typer.Option("--plain-url", help="With --url: the same model without speculation."),
    ] = None,
    compare: Compare = None,
    concurrency: Annotated[
        str, typer.Option(metavar="LIST", help="Requests at once, e.g. 1,4,16.")
    ] = "1,2,4,8",
    requests: Annotated[int, typer.Option(min=1, help="Requests at each level.")] = 16,
    model: Model = None,
    api_key_env: KeyVariable = None,
    ca_file: CaFile = None,
    prompts: Annotated[
        str, typer.Option(help="With --url: code, math, chat, long-context, or a file.")
    ] = "code",
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure speed at several concurrencies, and what speculation gains.

    Example: deployctl bench -p demo --concurrency 1,4,16
    """
    _one_of({"--profile": profile, "--url": url})
    levels = running.numbers("--concurrency", concurrency, 1)
    if url is None:
        running.perform(
            str(profile),
            running.playbook_of("bench"),
            sets=sets,
            hosts=hosts,
            step_options={
                "bench": {"concurrencies": levels, "requests": requests, "compare": compare}
            },
            check_gates=True,
            as_json=as_json,
            quiet=quiet,
        )
    from deployctl.config.checks import AcceptanceSettings
    from deployctl.engine.measure import checks
    from deployctl.steps import bench as benches

    with ExitStack() as stack:
        client = stack.enter_context(_client(str(url), api_key_env, ca_file))
        other = stack.enter_context(_client(plain_url, api_key_env, ca_file)) if plain_url else None
        settings = AcceptanceSettings(prompts=prompts)
        name = checks.served_model(client, model)
        load = benches.make_load(settings, name, levels, requests)
        found = benches.of_servers(client, other, load, _leveller(quiet))
    _leave("bench", found, as_json, benches.bench_lines, checks.bench_failure(str(url), found))


def _one_of(given: Mapping[str, object]) -> str:
    """The one option of these that was given; raises `UsageError` for none and for several."""
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1 and named[0] == "--profile" and "DEPLOYCTL_PROFILE" in os.environ:
        named = named[1:]
    if len(named) != 1:
        found = " and ".join(named) or "none of them"
        raise UsageError(f"give one of {', '.join(given)}; found {found}")
    return named[0]


def _client(url: str, key_variable: str | None, ca_file: Path | None) -> Client:
    from deployctl.vllm.client.client import Client

    key = None if key_variable is None else os.environ.get(key_variable)
    if key_variable is not None and not key:
        raise UsageError(f"--api-key-env {key_variable}: the variable is not set")
    return Client(url, key, None if ca_file is None else str(ca_file))


def _leave(
    kind: str,
    found: Evidence,
    as_json: bool,
    lines: Callable[[Evidence], Iterator[str]],
    failure: StepError | None,
) -> None:
    """Print what was found, and leave with the exit code of its verdict."""
    output.show({"schema": f"deployctl.{kind}/1", **found}, lines(found), as_json)
    if failure is not None and failure.next:
        output.note(failure.next)
    raise typer.Exit(0 if failure is None else failure.exit_code)


def _teller(quiet: bool) -> Callable[[str, str], None]:
    def tell(name: str, verdict: str) -> None:
        if not quiet:
            output.note(f"{name}: {verdict}")

    return tell


def _leveller(quiet: bool) -> Callable[[int, int], None]:
    def tell(concurrency: int, requests: int) -> None:
        if not quiet:
            output.note(f"{requests} requests, {concurrency} at once")

    return tell


def _counter(quiet: bool) -> Callable[[int, int, object], None]:
    def tell(done: int, limit: int, counts: object) -> None:
        if not quiet:
            output.note(f"request {done} of at most {limit}")

    return tell
