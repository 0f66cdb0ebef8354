"""What a profile means outside deployctl: the server's command line with a container's paths."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from deployctl.config.host import HostSettings
from deployctl.config.models import ModelSource
from deployctl.config.profile import Profile
from deployctl.config.routed import is_loopback
from deployctl.engine.connections.connect import connect
from deployctl.engine.run import front
from deployctl.errors import ConfigError, UsageError
from deployctl.hosts.operations import files, releases
from deployctl.steps import facts, replicas
from deployctl.steps.identity import unit_home
from deployctl.steps.interface import Answers, Deployment
from deployctl.steps.member import Member
from deployctl.steps.models import sources
from deployctl.steps.servers.ranks import processes_here
from deployctl.steps.servers.serving import secrets, serve_settings
from deployctl.vllm.drafters.drafter import DrafterConfigError, desired
from deployctl.vllm.serving.command import command, environment
from deployctl.vllm.serving.engine_arguments import engine_arguments
from deployctl.vllm.serving.knowledge import read

PROGRAM = "vllm"
DEFAULT_ROOT = "/var/lib/deployctl"
MODEL = "/models/target"
DRAFTER = "/models/drafter"
"""Where an exported container finds the two models."""
HEAD, RANK = "<address of the head>", "<rank>"
"""What stands in a group's command lines where each format has words of its own."""
STOP_MARGIN = 15
"""Seconds that a stop may take beyond the time in which requests may end."""


@dataclass(frozen=True)
class Folder:
    """Where one model comes from: a folder of the host, or a repository at a revision."""

    place: str
    path: str | None = None
    repo: str | None = None
    revision: str | None = None

    def download(self) -> list[str]:
        """The argv that fetches a repository into `place`; needs huggingface_hub's `hf`."""
        assert self.repo is not None
        pinned = ["--revision", self.revision] if self.revision else []
        return ["hf", "download", self.repo, *pinned, "--local-dir", self.place]


@dataclass(frozen=True)
class Exported:
    """One profile's server, with container paths; secrets by name alone, never by value.

    `secrets` maps the server's variable to the controller's. `drafter_config` is the text of the
    config.json that must lie in the drafter's folder, None where upstream's is right. Seconds.
    """

    name: str
    image: str
    argv: Sequence[str]
    env: Mapping[str, str]
    port: int
    gpus: int
    models: Sequence[Folder]
    replicas: int = 1
    secrets: Mapping[str, str] = field(default_factory=dict)
    drafter_config: str | None = None
    stop_seconds: int = 20 + STOP_MARGIN
    device_ids: Sequence[str] = ()
    address: str = ""
    """Where the profile listens, where that is this machine alone; empty for every address."""
    worker: Sequence[str] = ()
    """The argv of a group's other ranks; `replicas` is then the number of all ranks."""
    groups: int = 1
    """Copies of the model, each over `replicas` ranks."""
    served_name: str = ""
    engine: Mapping[str, Any] = field(default_factory=dict)
    """The options as arguments of vLLM's engine."""
    ray_version: str = ""

    @property
    def fetched(self) -> list[Folder]:
        """Models that come from a repository."""
        return [folder for folder in self.models if folder.repo is not None]

    @property
    def mounted(self) -> list[Folder]:
        """Models that lie on the host."""
        return [folder for folder in self.models if folder.path is not None]


def exported(profile: Profile, image: str | None, drafter_config: Path | None = None) -> Exported:
    """The server of a profile for a container.

    Its argv is the one that `up` runs, but for the three paths (program, model, drafter). A host
    is asked only where the drafter's upstream config.json is needed and lies there; raises its
    `HostError`, or `UsageError` where no image follows from the profile.
    """
    host = profile.hosts[0]
    wanted = replicas.placed(profile, host, member=_rank(profile, 0))
    drafter = sources.source(wanted, facts.DRAFTER)
    knowledge = read(profile.build.source.release)
    models_at = (PROGRAM, MODEL, DRAFTER if drafter else None)
    settings = serve_settings(wanted, *models_at, knowledge)
    worker: list[str] = []
    if profile.group is not None and profile.group.engine == "nodes":
        one = replace(wanted, member=_rank(profile, 1))
        worker = command(serve_settings(one, *models_at, knowledge))
        worker[worker.index("--node-rank") + 1] = RANK
    models = [_folder(profile.model, MODEL, host)]
    if drafter is not None:
        models.append(_folder(drafter, DRAFTER, host))
    gpus = wanted.profile.serve.gpus
    return Exported(
        name=profile.name,
        image=image or _image(profile),
        argv=_reachable(command(settings)),
        env=environment(profile.serve.env, None),
        port=profile.serve.port,
        address=_own_address(profile.serve.host),
        gpus=_gpus(profile),
        device_ids=tuple(str(index) for index in gpus or ()),
        models=models,
        replicas=len(profile.hosts if profile.group is None else profile.grouped(host.name)),
        groups=1 if profile.group is None else len(profile.heads),
        secrets={name: one.env for name, one in secrets(wanted).items()},
        drafter_config=_drafter_config(wanted, drafter_config),
        stop_seconds=int(profile.serve.stop_grace) + STOP_MARGIN,
        worker=worker,
        served_name=profile.model.served_name,
        engine=engine_arguments(settings),
        ray_version=profile.ray_version or "",
    )


def _rank(profile: Profile, rank: int) -> Member | None:
    """A rank of the profile's group, wherever that will be; None without a group."""
    if profile.group is None:
        return None
    hosts = tuple(host.name for host in profile.grouped(profile.everywhere[0].name))
    return Member(rank, hosts, (HEAD,) * len(hosts), (None,) * len(hosts))


def refuse_group(profile: Profile, format: str) -> None:
    """Raise `UsageError` where a format has no word for one model over several machines."""
    if profile.group is not None:
        raise UsageError(
            f"profile {profile.name} is one model over {len(profile.everywhere)} hosts",
            f"{format} starts every server by itself",
            f"use: deployctl export {FORMATS[profile.group.engine]}",
        )


FORMATS = {"nodes": "leader-worker-set", "ray": "ray-service"}
"""The format for a group, by its engine."""


def refuse_other(profile: Profile, format: str, image: str | None = None) -> None:
    """Raise `UsageError` where a format for groups does not fit the profile's."""
    group = profile.group
    if group is None:
        raise UsageError(
            f"profile {profile.name} has no group",
            f"{format} is one model over several pods",
            "use: deployctl export kubernetes",
        )
    if FORMATS[group.engine] != format:
        raise UsageError(
            f"profile {profile.name} has a group of engine {group.engine}",
            f"{format} has no ranks of that kind",
            f"use: deployctl export {FORMATS[group.engine]}",
        )
    if group.elsewhere:
        raise UsageError(
            f"profile {profile.name} uses a cluster that is there already",
            f"{format} starts one",
            "leave out group.ray.address, and name all hosts",
        )
    if group.engine == "ray" and image is None:
        raise UsageError(
            "no container image follows from this profile",
            "vLLM's own images have no Ray",
            f"name one with this vLLM and ray[serve,llm]=={group.ray.version}: --image IMAGE",
        )


def secret_names(profile: Profile) -> list[str]:
    """The server's secret variables by their name there."""
    return list(secrets(replicas.placed(profile, profile.hosts[0])))


def deployed(profile: Profile) -> Mapping[str, Any]:
    """The launch settings (`argv`, `env`) of what the profile's first host serves now.

    Raises `UsageError` where nothing is deployed there.
    """
    host = profile.hosts[0]
    with connect(host) as connected:
        unit = front.serving(connected.session, replicas.placed(profile, host)).unit_id
        current = connected.session.call(releases.state, **unit)["current"]
        path = f"{unit_home(unit)}/releases/{current}/launch.json"
        found = connected.session.call(files.read, path=path) if current else None
    if found is None or not found["exists"]:
        raise UsageError(
            f"{host.name}: no release of profile {profile.name} is deployed",
            "a unit file names the environment that was built for a release",
            f"deployctl up --profile {profile.name}",
        )
    settings: dict[str, Any] = json.loads(str(found["text"]))
    return settings


def _reachable(argv: list[str]) -> list[str]:
    """The same command line listening on every address: a container's own network bounds it."""
    at = argv.index("--host")
    return [*argv[: at + 1], "0.0.0.0", *argv[at + 2 :]]


def _own_address(host: str) -> str:
    """The address at which a machine alone reaches what listens there; empty for another."""
    if not is_loopback(host):
        return ""
    return "127.0.0.1" if host == "localhost" else host.strip("[]")


def _folder(source: ModelSource, place: str, host: HostSettings) -> Folder:
    if source.repo is not None:
        return Folder(place, repo=source.repo, revision=source.revision)
    if source.bundled is not None:
        root = host.root or DEFAULT_ROOT
        return Folder(place, path=root + sources.shipped(source.bundled).place[1:])
    return Folder(place, path=source.path)


def _image(profile: Profile) -> str:
    release = profile.build.source.release
    if release is None or profile.build.target != "cuda":
        raise UsageError(
            "no container image follows from this profile",
            "only a published release for CUDA has an official image",
            "name one that holds the built vLLM: --image REGISTRY/NAME:TAG",
        )
    return f"vllm/vllm-openai:v{release}"


def _gpus(profile: Profile) -> int:
    """GPUs that one server needs."""
    if profile.build.target != "cuda" or profile.serve.gpus == []:
        return 0
    return processes_here(profile)


def _drafter_config(wanted: Deployment, given: Path | None) -> str | None:
    """The config.json that the drafter must have; None where the profile changes nothing."""
    drafter, source = wanted.profile.drafter, sources.source(wanted, facts.DRAFTER)
    if drafter is None or source is None or not drafter.config:
        return None
    try:
        upstream = given.read_text(encoding="utf-8") if given else _upstream(wanted, source)
        return desired(upstream, drafter.config).text
    except OSError as error:
        raise UsageError(f"{given} cannot be read: {error.strerror}") from error
    except DrafterConfigError as error:
        raise ConfigError(f"drafter.config of profile {wanted.profile.name}: {error}") from error


def _upstream(wanted: Deployment, source: ModelSource) -> str:
    if source.bundled is not None:
        return sources.config_text(wanted, Answers({}), facts.DRAFTER)
    question = sources.question(wanted, facts.DRAFTER)
    assert question is not None, "there is a drafter model"
    with connect(wanted.host) as connected:
        answer = connected.session.follow(question.call, None)
    return sources.config_text(wanted, Answers({question.key: answer}), question.key)
