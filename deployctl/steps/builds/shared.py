"""An environment that was built on another host, installed from the wheels that it sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from deployctl.agent.wire.jobs import JobState
from deployctl.errors import HostError
from deployctl.hosts.operations import shipping
from deployctl.steps import job
from deployctl.steps.builds.environments import job_id
from deployctl.steps.interface import ENVIRONMENT, Context, Step
from deployctl.vllm.builds import recipes
from deployctl.vllm.builds.wish import Wish

PACKED = "@/shipping/environment-"
"""Where a parcel lies, by the artifact's key: on its producer and on each receiver."""
SHARED = "shared"
"""The strategy of a build that was made elsewhere."""


def parcel(key: str) -> str:
    """The folder of an environment's wheels on any host."""
    return PACKED + key


def pack(context: Context, key: str) -> None:
    """Make the wheels of this host's environment, for others; raises a `HostError`."""
    source = context.release.environment_key
    final = job.run(
        context,
        f"pack-{key}",
        [recipes.pack(f"@/environments/{source}", parcel(key))],
        stall=context.wanted.profile.build.stall,
        limit=context.wanted.profile.build.limit,
        label={"key": source, "folder": parcel(key)},
    )
    if final["state"] != "done":
        words = job.log(context.session, final["id"]).strip().splitlines()
        raise HostError(
            context.wanted.host.name,
            f"environment {source} cannot be made into wheels: the job {final['state']}",
            words[-1] if words else str(final.get("why") or ""),
            "run: deployctl verify --deep; or set share.way: none",
        )


def install(step: Step, context: Context, wish: Wish, uv: str) -> JobState:
    """Receive the wheels and install from them; the build's final state. Raises `StagingFailed`."""
    delivery = context.wanted.deliveries[ENVIRONMENT]
    folder = parcel(delivery.key)
    context.log(f"environment {wish.key}: {delivery.words}")
    try:
        told = context.courier.receive(context, ENVIRONMENT, folder)
        found = context.session.call(shipping.unpack, folder=folder)
    except HostError as error:
        raise step.fail(context, *_parts(error)) from error
    wish = replace(wish, python=str(found["python"]))
    return job.run(
        context,
        job_id(wish.key),
        recipes.shared(wish, uv, str(found["place"]), found["kept"]),
        stall=context.wanted.profile.build.stall,
        limit=context.wanted.profile.build.limit,
        label={
            "key": wish.key,
            "strategy": SHARED,
            "reason": f"built by {told['delivery']['producer']}",
            "commit": told["producer"].get("commit_installed"),
            "merge_base": told["producer"].get("merge_base"),
            "producer": told["producer"],
            "delivery": {**delivery.document(), **told["delivery"]},
        },
    )


def _parts(error: HostError) -> tuple[str, str, str]:
    host = f"{error.host}: "
    return error.what.removeprefix(host), error.why, error.next


def differences(producer: Mapping[str, Any], packages: Mapping[str, str]) -> list[str]:
    """What is installed here and is not what the producer has. Pure."""
    wanted = producer.get("packages")
    if wanted is None:
        return []
    return [
        f"{name}: {packages.get(name, 'not here')}, the producer has {wanted.get(name, 'none')}"
        for name in sorted({*wanted, *packages})
        if wanted.get(name) != packages.get(name)
    ]
