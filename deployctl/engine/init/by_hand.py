"""A server that somebody started by hand on a host, and what a profile says of it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deployctl.agent.wire.adoption import ByHand
from deployctl.agent.wire.gpus import GpuState
from deployctl.config.secrets import exposed
from deployctl.engine.init import installed, shell
from deployctl.engine.init.given import Given
from deployctl.engine.init.loaded import Source
from deployctl.engine.init.profile_text import PORT
from deployctl.errors import HostError, UsageError
from deployctl.hosts.operations import adoption, gpu, network
from deployctl.hosts.session import Session
from deployctl.vllm.serving import titles
from deployctl.vllm.serving.arguments import Arguments, NotUnderstood, parse

HIDDEN = "***"
KEYS = {"api-key": "VLLM_API_KEY", "hf-token": "HF_TOKEN"}
"""Options with a secret, and the variable in which vLLM takes it as well."""
OURS = (
    *("VLLM_", "CUDA_", "NCCL_", "HF_", "HUGGING", "TORCH", "PYTORCH_", "TRITON_", "FLASHINFER_"),
    *("OMP_", "MKL_", "KMP_", "GLOO_", "LD_", "TRANSFORMERS_", "TOKENIZERS_", "SAFETENSORS_"),
    *("MODELSCOPE_", "LMCACHE_", "UCX_", "RAY_", "STAND_IN_"),
)
"""Beginnings of the variables that change what a server does; the others of a login do not."""
STORES = ("AWS_", "S3_", "RUNAI_", "GOOGLE_", "AZURE_")
"""Beginnings of those that a server reads where its model lies in an object store; a login has them
for other programs as well."""
IN_A_STORE = re.compile(r"(s3|gs|az)://|runai_streamer|tensorizer")
"""In a command line: something is loaded from an object store."""
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


@dataclass(frozen=True)
class Server:
    """A server that was found. `argv` is its whole command line without options that hold a
    secret, `secrets` the variables that stand for those, and for the secrets of its environment.
    """

    host: str
    process: ByHand
    argv: Sequence[str]
    arguments: Arguments
    secrets: Sequence[str]

    @property
    def port(self) -> int:
        return int(self.arguments.one("port") or PORT)

    def words(self) -> str:
        """It in a line, for people."""
        one = self.process
        since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(one["started"]))
        model = self.arguments.model
        return f"pid {one['pid']}, port {self.port}, {model}, user {one['user']}, since {since}"


def servers(host: str, session: Session) -> list[Server]:
    """The servers of a host that are not supervised here, by port; raises `HostError` for one that
    cannot be read."""
    found = session.call(adoption.candidates, pattern="|".join(titles.LOOK_FOR))
    mine = [one for one in found if titles.part(one["comm"], one["argv"]) == "server"]
    pids = {one["pid"] for one in mine}
    return sorted(
        (_server(host, one) for one in mine if one["parent"] not in pids), key=lambda s: s.port
    )


def choose(host: str, found: Sequence[Server], pid: int | None, port: int | None) -> Server:
    """The one that is meant; raises `UsageError` that lists them where that is not clear."""
    chosen = [s for s in found if pid in (None, s.process["pid"]) and port in (None, s.port)]
    listed = "\n".join(server.words() for server in found)
    if len(chosen) == 1:
        server = chosen[0]
        if server.process["unknown"]:
            raise HostError(
                host,
                f"the server cannot be adopted ({server.words()})",
                server.process["unknown"],
                f"log in to the host as root or as {server.process['user']}; or write its profile "
                "by deployctl init --from",
            )
        return server
    if not found:
        raise UsageError(
            f"{host}: no vLLM server runs that was started by hand",
            "looked for vllm serve and vllm.entrypoints.openai.api_server",
            "start it first, or write a profile from its command: deployctl init --from",
        )
    if not chosen:
        asked = [f"of pid {pid}"] if pid is not None else []
        asked += [f"on port {port}"] if port is not None else []
        there = "; ".join(server.words() for server in found)
        what = f"no server {' '.join(asked)}; there is: {there}"
        raise UsageError(f"{host}: {what}", next="choose one: --port PORT")
    what = f"{len(chosen)} servers to choose from"
    raise UsageError(f"{host}: {what}", listed, "choose one: --port PORT")


def not_answering(server: Server, session: Session) -> list[str]:
    """A warning for a server that does not listen on its port: it still loads, or hangs."""
    if session.call(network.listener, port=server.port)["listening"]:
        return []
    return [
        f"nothing listens on port {server.port} yet: the server may still load; before `up`, see "
        "that it answers"
    ]


def _server(host: str, process: ByHand) -> Server:
    argv, secrets = _without_keys(process["argv"])
    at = shell.served(argv)
    try:
        arguments = parse(argv[at:] if at is not None else [])
        why = "" if arguments.model else "no model is named in its command line"
    except NotUnderstood as error:
        # It is listed all the same, and stands in the way of no other.
        arguments, why = Arguments(None), f"its command line: {error}"
    process = {**process, "unknown": process["unknown"] or why}
    return Server(host, process, argv, arguments, [*secrets, *process["secrets"]])


def _without_keys(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """A command line without the options that hold a secret, and the variables for those."""
    kept: list[str] = []
    names: list[str] = []
    dropping = False
    for word in argv:
        if word.startswith("-"):
            option = word.lstrip("-").partition("=")[0].replace("_", "-")
            dropping = option in KEYS
            if dropping:
                names.append(KEYS[option])
                continue
        elif dropping:
            continue
        kept.append(word)
    return kept, names


def check_secrets(server: Server) -> None:
    """Raise `UsageError` for a secret in the command line that no variable can stand for."""
    place = next((i for i, word in enumerate(server.argv) if HIDDEN in word), None)
    if place is None:
        return
    option = " ".join(server.argv[max(0, place - 1) : place + 1])
    raise UsageError(
        f"{server.host}: the command line holds a secret: {option}",
        "a secret in a command line is visible to every user of the host, and is not recorded",
        "start the server with it in its environment instead, then adopt that",
    )


def given(server: Server, session: Session) -> Given:
    """What a profile is written from: absolute paths, pinned revisions, relevant variables."""
    process, notes = server.process, list[str]()
    package = process["package"]
    env, secrets, left = variables(server)
    if left:
        notes.append(f"secrets of its environment that vLLM does not read: {', '.join(left)}")
    if process["service"]:
        notes.append(
            f"it runs in {process['service']}, which may start it again: disable that before `up`"
        )
    revision = server.arguments.one("revision") or "main"
    model = Source.of(process, str(server.arguments.model), session, revision)
    argv = list(server.argv[(shell.served(server.argv) or 0) :])
    argv = _with_model(argv, server.arguments, model)
    speculator = drafter(server, session)
    argv = _with_drafter(argv, server, speculator)
    remarks = [f"the server: {server.words()}", *installed.words(package), *model.words("model")]
    remarks += speculator.words("drafter") if speculator else ()
    gpus: list[int] | None = []
    if installed.target(package) != "cpu":
        gpus = held(session.call(gpu.state), process["members"])
        if not gpus and "CUDA_VISIBLE_DEVICES" not in env:
            gpus = _first(server)
    if gpus is not None and (gpus or installed.target(package) == "cpu"):
        env.pop("CUDA_VISIBLE_DEVICES", None)
    build = list(installed.build(package, notes))
    return Given(argv, env, None, None, gpus, notes, secrets, build, remarks)


def variables(server: Server) -> tuple[dict[str, str], list[str], list[str]]:
    """The variables that a profile keeps, the secrets that it names, and those left out."""
    ours = (*OURS, *(STORES if any(map(IN_A_STORE.search, server.argv)) else ()))
    env = {name: value for name, value in server.process["env"].items() if _relevant(name, ours)}
    secrets = [name for name in server.secrets if _relevant(name, ours)]
    named = sorted(dict.fromkeys([*exposed(env), *secrets]))
    left = [name for name in server.secrets if name not in named]
    return {name: env[name] for name in sorted(env) if name not in named}, named, left


def _relevant(name: str, ours: tuple[str, ...]) -> bool:
    return name.startswith(ours) or name.lower() in PROXIES


def held(state: GpuState, members: Sequence[int]) -> list[int] | None:
    """The GPUs that these processes hold, as nvidia-smi numbers them; None where it shows none of
    them, as in a container."""
    uuids = {row["uuid"] for row in state["apps"] if row["pid"] in members}
    return sorted(row["index"] for row in state["gpus"] if row["uuid"] in uuids) or None


def _first(server: Server) -> list[int]:
    """vLLM takes the first ones where it sees them all."""
    one = server.arguments.one
    parallel = int(one("tensor-parallel-size") or 1) * int(one("pipeline-parallel-size") or 1)
    return list(range(parallel * int(one("data-parallel-size") or 1)))


def _with_model(argv: list[str], arguments: Arguments, model: Source) -> list[str]:
    """The arguments with the model as a profile has it, served under the name that it has."""
    made = [model.written, *_without_model(argv, arguments)]
    if "served-model-name" not in arguments.options:
        made += ["--served-model-name", model.name]
    if model.revision and "revision" not in arguments.options:
        made += ["--revision", model.revision]
    return made


def _without_model(argv: list[str], arguments: Arguments) -> list[str]:
    """The arguments without `MODEL` or `--model MODEL`; other options may have the same value."""
    for index in range(len(argv)):
        for count in (1, 2):
            rest = argv[:index] + argv[index + count :]
            with suppress(NotUnderstood):
                if parse(rest) == Arguments(None, arguments.options):
                    return rest
    return argv


def drafter(server: Server, session: Session) -> Source | None:
    """The drafter's model; None for a method without one."""
    config = _speculative(server)
    if not isinstance(config.get("model"), str):
        return None
    revision = config.get("revision")
    return Source.of(server.process, config["model"], session, str(revision or "main"))


def _speculative(server: Server) -> dict[str, Any]:
    try:
        config = json.loads(server.arguments.one("speculative-config") or "{}")
    except ValueError:
        return {}
    return config if isinstance(config, dict) else {}


def _with_drafter(argv: list[str], server: Server, found: Source | None) -> list[str]:
    """The arguments with the drafter's absolute path, or its pinned revision."""
    text = server.arguments.one("speculative-config")
    if found is None or text is None:
        return argv
    config = {**_speculative(server), "model": found.written}
    if found.revision:
        config["revision"] = found.revision
    return [word.replace(text, json.dumps(config)) for word in argv]
