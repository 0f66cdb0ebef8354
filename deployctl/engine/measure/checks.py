"""The gates apart from a deployment: on any OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Callable

from deployctl.config.checks import AcceptanceSettings, SmokeSettings
from deployctl.errors import (
    AcceptanceFailed,
    DeployError,
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
from deployctl.vllm.client.outcome import REFUSALS, RequestFailed

AGAIN = {
    "key": "name the variable that holds the server's key: --api-key-env NAME",
    "forbidden": "the server or a proxy before it refuses this client: read its words above; "
    "where it wants a key, --api-key-env NAME",
    "busy": "ask again later",
}
"""What to do about a server that is alive and refuses, by how a request ended."""


def served_model(client: Client, name: str | None) -> str:
    """The model to ask for: `name`, or the only one that is served.

    Raises `NotReady` where nothing answers, `Undecided` where the server refuses to tell,
    `UsageError` where no model can be chosen.
    """
    try:
        names = client.models()
    except RequestFailed as error:
        if name is not None and error.kind != "refused":
            return name
        raise _unlisted(client.base_url, error) from error
    if name is not None:
        return name
    if len(names) != 1:
        raise UsageError(
            f"{client.base_url} serves {', '.join(names) or 'no model'}",
            next="name one of them with --model",
        )
    return names[0]


def _unlisted(url: str, error: RequestFailed) -> DeployError:
    """Why the models cannot be listed, and what to do about it."""
    if error.kind == "refused":
        return NotReady(
            url,
            "/v1/models",
            "nothing serves",
            str(error),
            "look whether a server listens there: for one of a profile's hosts, deployctl up",
        )
    if error.kind in REFUSALS:
        return Undecided(url, "/v1/models", str(error), next=AGAIN[error.kind])
    broken = error.status is not None and error.status >= 500
    if broken or error.kind in ("unavailable", "timeout", "stalled", "early-close"):
        return NotReady(
            url,
            "/v1/models",
            f"it does not answer: {error}",
            next="read the log of the server, or of the proxy before it",
        )
    return UsageError(
        f"{url} does not list its models: {error}",
        next="name the model with --model, or look whether an OpenAI-compatible server "
        "listens there",
    )


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
    said = f"{verdict}: {smoke.problem(found)}"
    if verdict != "unknown":
        return SmokeFailed(place, smoke.SmokeStep.name, said, evidence=found)
    again = AGAIN.get(smoke.refusal(found) or "", "ask again")
    return Undecided(place, smoke.SmokeStep.name, said, next=again, evidence=found)


def bench_failure(place: str, found: Evidence) -> StepError | None:
    """The failure of a bench in which requests failed; None where all were answered."""
    said = bench.problem(found)
    if said is None:
        return None
    kind = (found["ended"] or {}).get("kind")
    if kind in REFUSALS:
        return Undecided(place, bench.BenchStep.name, said, next=AGAIN[kind], evidence=found)
    return SmokeFailed(place, bench.BenchStep.name, said, evidence=found)
