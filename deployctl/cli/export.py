"""`deployctl export FORMAT`: a profile in another tool's format."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from deployctl.cli import options, output, running


class Format(StrEnum):
    """The formats."""

    COMPOSE = "compose"
    KUBERNETES = "kubernetes"
    LEADER_WORKER_SET = "leader-worker-set"
    RAY_SERVICE = "ray-service"
    SYSTEMD = "systemd"
    ANSIBLE = "ansible-inventory"


def register(app: typer.Typer) -> None:
    """Add this file's command."""
    app.command()(export)


def export(
    format: Annotated[Format, typer.Argument(help="The format to write.")],
    profile: options.Profile,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    image: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="Container image; default: vLLM's own of the release."),
    ] = None,
    drafter_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The drafter's upstream config.json, in place of asking a host."
        ),
    ] = None,
) -> None:
    """Print a profile as Compose file, Kubernetes manifests, systemd unit or Ansible inventory; one
    with a group as LeaderWorkerSet, or as RayService where its engine is Ray.

    Example: deployctl export kubernetes -p qwen36-dflash --image registry.example/vllm:pr
    """
    from deployctl.engine.inspect import exporting
    from deployctl.report.export import (
        compose,
        inventory,
        kubernetes,
        leader_worker_set,
        ray_service,
        systemd,
    )

    loaded = running.load(profile, sets, hosts)
    if format is Format.ANSIBLE:
        text = inventory.render(loaded)
    elif format in (Format.LEADER_WORKER_SET, Format.RAY_SERVICE):
        exporting.refuse_other(loaded, format, image)
        one = exporting.exported(loaded, image, drafter_config)
        grouped = leader_worker_set if format is Format.LEADER_WORKER_SET else ray_service
        text = grouped.render(one)
    elif format is Format.SYSTEMD:
        exporting.refuse_group(loaded, format)
        launch, names = exporting.deployed(loaded), exporting.secret_names(loaded)
        grace = loaded.serve.stop_grace
        text = systemd.render(loaded.name, launch["argv"], launch["env"], names, grace)
    else:
        exporting.refuse_group(loaded, format)
        one = exporting.exported(loaded, image, drafter_config)
        text = (compose if format is Format.COMPOSE else kubernetes).render(one)
    output.answer_text(text)
