"""The gates apart from a deployment: on any OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Callable

from deployctl.config.checks import AcceptanceSettings, SmokeSettings
from deployctl.errors import (
    AcceptanceFailed,
    NotReady,
    SmokeFailed,
    StepError,
    Undecided,
    UsageError,
)
from deployctl.steps import acceptance, bench, smoke
from deployctl.steps.interface import Evidence
from deployctl.vllm.acceptance.measurement import Progress, measure
from deployctl.vllm.client import smoke_run
from deployctl.vllm.client.client import Client
from deployctl.vllm.client.outcome import RequestFailed


def served_model(client: Client, name: str | None) -> str:
    """The model to ask for: `name`, or the only one that is served.

    Raises `NotReady` where nothing answers, `UsageError` where no model can be chosen.
    """
    try:
        names = client.models()
    except RequestFailed as error:
        if error.kind == "refused":
            raise NotReady(
                client.base_url,
                "/v1/models",
                "nothing serves",
                str(error),
                "look whether a server listens there: for one of a profile's hosts, deployctl up",
            ) from error
        if name is not None:
            return name
        raise UsageError(
            f"{client.base_url} does not list its models: {error}",
            next="name the model with --model, or look whether an OpenAI-compatible server "
            "listens there",
        ) from error
    if name is not None:
        return name
    if len(names) != 1:
        raise UsageError(
            f"{client.base_url} serves {', '.join(names) or 'no model'}",
            next="name one of them with --model",
        )
    return names[0]


def smoke_of(
    client: Client, model: str, settings: SmokeSettings, told: Callable[[str, str], None]
) -> Evidence:
    """The smoke check of a server."""
    return smoke_run.run(client, smoke.asked(settings, model), told)


def acceptance_of(
    client: Client, model: str, settings: AcceptanceSettings, progress: Progress
) -> Evidence:
    """The acceptance check of a server."""
    protocol = acceptance.make_protocol(settings, model, acceptance.gate_of(settings))
    return acceptance.evidence_of(measure(client, protocol, progress), protocol, settings)


def acceptance_failure(place: str, found: Evidence) -> StepError | None:
    """The failure that a verdict means; None for a pass."""
    verdict, said = found["verdict"], "; ".join(found["reasons"])
    if verdict == "pass":
        return None
    if verdict == "fail":
        return AcceptanceFailed(place, acceptance.AcceptanceStep.name, said, evidence=found)
    return Undecided(place, acceptance.AcceptanceStep.name, f"{verdict}: {said}", evidence=found)


def smoke_failure(place: str, found: Evidence) -> StepError | None:
    """The failure that a smoke verdict means; None for a pass."""
    verdict = found["verdict"]
    if verdict == "pass":
        return None
    return SmokeFailed(
        place, smoke.SmokeStep.name, f"{verdict}: {smoke.problem(found)}", evidence=found
    )


def bench_failure(place: str, found: Evidence) -> StepError | None:
    """The failure of a bench in which requests failed; None where all were answered."""
    for level in [*found["levels"], *(found["plain"] or ())]:
        if level["failed"]:
            said = f"requests failed: {level['failures'][0]}"
            return SmokeFailed(place, bench.BenchStep.name, said, evidence=found)
    return None
