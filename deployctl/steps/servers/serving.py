"""The server that a profile wants, as vLLM's own settings; what can be known against it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from deployctl.config.group import ALONE
from deployctl.config.serve import SecretSettings
from deployctl.steps.builds.built import sealed_knowledge
from deployctl.steps.facts import DRAFTER, GPUS, MODEL, SHM
from deployctl.steps.gpus import clearing
from deployctl.steps.gpus.gpu_snapshot import in_words, snapshot
from deployctl.steps.interface import Answers, Deployment, Unanswered
from deployctl.steps.models import sources
from deployctl.steps.servers import ranks, ray
from deployctl.vllm.drafters.drafter import DrafterConfigError, desired
from deployctl.vllm.drafters.drafter_shape import shape
from deployctl.vllm.serving.command import Serve, Speculation, problems, with_backend, with_drain
from deployctl.vllm.serving.fit import DEFIES, Loads, Share, fit
from deployctl.vllm.serving.knowledge import Knowledge

SHARED_MEMORY = 256 << 20
"""Bytes of /dev/shm below which NCCL fails between GPUs (a container's default is 64 MiB)."""


def serve_settings(
    wanted: Deployment, program: str, model: str, drafter: str | None, knowledge: Knowledge
) -> Serve:
    """The wanted server, with these absolute paths, for this vLLM."""
    profile = wanted.profile
    serve, drafting = profile.serve, profile.drafter
    speculation = None
    if drafting is not None:
        speculation = Speculation(
            drafting.method, drafting.num_speculative_tokens, drafter, drafting.speculative
        )
    settings = Serve(
        program=program,
        model=model,
        served_name=profile.model.served_name,
        host=serve.host,
        port=serve.port,
        tensor_parallel_size=ranks.tensor_parallel_size(profile),
        max_model_len=serve.max_model_len,
        gpu_memory_utilization=serve.gpu_memory_utilization,
        dtype=serve.dtype,
        kv_cache_dtype=serve.kv_cache_dtype,
        attention_backend=serve.attention_backend,
        args={**ranks.options(wanted), **serve.args},
        answers=wanted.role != "worker",
        speculation=speculation,
    )
    settings = with_backend(settings, knowledge, profile.build.target)
    return with_drain(settings, knowledge, serve.stop_grace)


def secrets(wanted: Deployment) -> dict[str, SecretSettings]:
    """The server's secret variables by their name there."""
    serve = wanted.profile.serve
    named = dict(serve.secrets)
    if serve.api_key is not None:
        named["VLLM_API_KEY"] = serve.api_key
    group = ray.cluster(wanted)
    if group is not None and group.ray.token is not None:
        named[ray.TOKEN] = group.ray.token
    return named


def objections(wanted: Deployment, answers: Answers) -> list[str]:
    """Everything already known to make the wanted server fail or draft wrongly, in sentences."""
    profile = wanted.profile
    knowledge = sealed_knowledge(wanted, answers)
    model = sources.source(wanted, DRAFTER)
    place = "drafter" if model is not None else None
    settings = serve_settings(wanted, "vllm", "model", place, knowledge)
    return [
        *problems(settings, knowledge, profile.build.target),
        *_nodes(wanted, knowledge),
        *_data_parallel(wanted, answers),
        *_runner(wanted, answers),
        *_memory(wanted, answers),
        *held(wanted, answers),
        *_shared_memory(wanted, answers),
    ]


def _nodes(wanted: Deployment, knowledge: Knowledge) -> Iterator[str]:
    """Only a vLLM that knows of nodes can be one rank of several."""
    group = wanted.profile.group
    by_nodes = group is not None and group.engine == "nodes"
    if by_nodes and knowledge.knows_option("nnodes") is False:
        yield "this vLLM has no option --nnodes, by which a group is started: build a newer one"


def _data_parallel(wanted: Deployment, answers: Answers) -> Iterator[str]:
    """vLLM refuses an API on each rank, or dies of it, where the model has no experts to share."""
    args = wanted.profile.serve.args
    # Rank 0 is a rank too.
    given = [name for name in ALONE if args.get(name) is not None and args[name] is not False]
    if not given:
        return
    try:
        config = sources.config(wanted, answers, MODEL)
    except Unanswered:
        return
    nested = config.get("text_config")
    bodies = [config, nested if isinstance(nested, dict) else {}]
    if not any("expert" in key for body in bodies for key in body):
        yield (
            f"vLLM refuses {given[0]} for a model without experts: leave it out, and use replicas "
            "behind a router"
        )


def _runner(wanted: Deployment, answers: Answers) -> Iterator[str]:
    """The V1 model runner cannot run a drafter with both kinds of attention."""
    drafting = wanted.profile.drafter
    if drafting is None or drafting.method != "dflash":
        return
    if wanted.profile.serve.env.get("VLLM_USE_V2_MODEL_RUNNER") != "0":
        return
    try:
        config = desired(sources.config_text(wanted, answers, DRAFTER), drafting.config)
    except (Unanswered, DrafterConfigError):
        return
    if shape(config.config).mixed:
        yield (
            "VLLM_USE_V2_MODEL_RUNNER=0 in serve.env breaks a drafter that mixes sliding and full "
            "attention"
        )


def _memory(wanted: Deployment, answers: Answers) -> Iterator[str]:
    serve = wanted.profile.serve
    state = answers.get(GPUS)
    if wanted.profile.build.target != "cuda" or not state or not state["gpus"]:
        return
    if any(option.replace("_", "-") in DEFIES for option in serve.args):
        return
    rows = [g for g in state["gpus"] if serve.gpus is None or g["index"] in serve.gpus]
    totals = [g["memory_total"] for g in rows if g["memory_total"] is not None]
    needed = ranks.processes_here(wanted.profile)
    if serve.gpus is not None and len(rows) < needed:
        yield f"{needed} GPUs are wanted, {len(rows)} of those named are there"
        return
    if wanted.member is not None and len(rows) < needed:
        yield f"{needed} GPUs are wanted of this host, {len(rows)} are there"
        return
    loads = _loads(wanted, answers)
    if not totals or loads is None:
        return
    bound = fit(
        loads,
        sorted(totals)[-needed:],
        parallel=ranks.shards(wanted.profile),
        utilization=serve.gpu_memory_utilization,
        tokens=serve.max_model_len,
        cache_type=serve.kv_cache_dtype,
    )
    if bound.too_big:
        yield bound.sentence()


def held(wanted: Deployment, answers: Answers) -> Iterator[str]:
    """GPUs on which what cleaning spares leaves less memory than vLLM will ask for; nothing where
    it is not known who holds them."""
    try:
        now = snapshot(wanted, answers)
    except Unanswered:
        return
    for gpu in clearing.whole_gpus(now):
        stays = clearing.stays(now, gpu)
        total = gpu["memory_total"]
        if total is None:
            continue
        available = clearing.available(now, gpu)
        if available is not None:
            share = Share(total, available, wanted.profile.serve.gpu_memory_utilization)
            if share.too_much:
                yield (
                    f"GPU {gpu['index']} shares the machine's memory, of which {available} MiB are "
                    f"available; {share.sentence()}, or free some of it"
                )
                continue
        if not stays:
            continue
        kept = sum(verdict.process.memory or 0 for verdict in stays)
        share = Share(total, total - kept, wanted.profile.serve.gpu_memory_utilization)
        if share.too_much:
            who = "; ".join(in_words(verdict) for verdict in stays)
            yield f"GPU {gpu['index']}: {kept} MiB stay held by {who}; {share.sentence()}"


def _loads(wanted: Deployment, answers: Answers) -> Loads | None:
    """What will be loaded; None where a model is not there to be measured yet."""
    try:
        target = sources.config(wanted, answers, MODEL)
        if sources.source(wanted, DRAFTER) is None:
            return Loads(sources.weight_bytes(answers, MODEL), target)
        return Loads(
            sources.weight_bytes(answers, MODEL),
            target,
            sources.weight_bytes(answers, DRAFTER),
            sources.config(wanted, answers, DRAFTER),
        )
    except Unanswered:
        return None


def _shared_memory(wanted: Deployment, answers: Answers) -> Iterator[str]:
    there, several = answers.get(SHM), ranks.processes_here(wanted.profile) > 1
    needed = SHARED_MEMORY if several else 0
    if ray.cluster(wanted) is not None and wanted.member is not None:
        needed += ray.OBJECT_STORE
    if needed and there and there["free"] < needed:
        yield (
            f"/dev/shm has {there['free'] >> 20} MiB free, and this start needs {needed >> 20} "
            "MiB: give the container a larger one"
        )
