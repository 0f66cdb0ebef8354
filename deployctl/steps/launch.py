"""launch: the wanted release's server runs under supervision, started by us, known by its pid."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from deployctl.config.serve import SecretSettings
from deployctl.errors import NotReady
from deployctl.steps import sources
from deployctl.steps.interface import (
    Answers,
    Change,
    Context,
    Deployment,
    Evidence,
    Plan,
    Question,
    Step,
)
from deployctl.steps.release import release_paths
from deployctl.vllm.command import Serve, Speculation, command, environment

RUNNING = ("starting", "running")


class LaunchStep(Step):
    """Starts the server of the release; what runs already and is wanted stays untouched."""

    name = "launch"
    phase = "switch"
    failure = NotReady
    follows = ("build", "fetch", "drafter")

    def questions(self, wanted: Deployment) -> Sequence[Question]:
        return [Question("unit", "units.state", {"name": wanted.profile.name})]

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        unit = answers["unit"]
        release = release_paths(wanted, answers).release
        runs = unit["release"] if unit["state"] in RUNNING else None
        if runs == release and unit["supervised"]:
            return Plan("unchanged", evidence=_evidence(unit))
        why = unit["state"] if runs is None else ""
        if runs == release:
            why = "nobody supervises it"
        return Plan("change", (Change("server", runs, release, why),))

    def apply(self, context: Context, plan: Plan) -> None:
        wanted, session = context.wanted, context.session
        unit = session.call("units.state", name=wanted.profile.name)
        if unit["state"] in RUNNING or unit["members"]:
            context.progress("stop", f"release {unit['release']}, pid {unit['pid']}")
            grace = wanted.profile.serve.stop_grace
            session.call("units.stop", name=wanted.profile.name, grace=grace)
        launch = self._launch(context)
        context.progress("start", " ".join(launch["argv"]))
        session.call(
            "units.start",
            name=wanted.profile.name,
            argv=launch["argv"],
            env=launch["env"],
            secrets=self._secrets(context),
            release=context.release.release,
            grace=wanted.profile.serve.stop_grace,
            supervisor=wanted.profile.serve.supervisor,
        )

    def prove(self, context: Context) -> Evidence:
        unit = context.session.call("units.state", name=context.wanted.profile.name)
        evidence = _evidence(unit)
        if unit["state"] not in RUNNING:
            log = context.session.call("units.log", name=context.wanted.profile.name, offset=-4000)
            raise self.fail(
                context,
                f"the server ended at once, status {unit['rc']}",
                unit["error"] or log["text"].strip(),
                "mend what the log says, then run again",
                evidence,
            )
        return evidence

    def _launch(self, context: Context) -> dict[str, Any]:
        """The launch settings of this release. A sealed release keeps those it was proven with."""
        path = f"{context.release.directory}/launch.json"
        releases = context.answers["releases"]["releases"]
        if releases.get(context.release.release):
            kept = context.session.call("files.read", path=path)
            if kept["exists"]:
                sealed: dict[str, Any] = json.loads(kept["text"])
                return sealed
        launch = launch_settings(context)
        text = json.dumps(launch, indent=2) + "\n"
        context.session.call("files.write", path=path, text=text)
        return launch

    def _secrets(self, context: Context) -> dict[str, str]:
        serve = context.wanted.profile.serve
        named: dict[str, SecretSettings] = dict(serve.secrets)
        if serve.api_key is not None:
            named["VLLM_API_KEY"] = serve.api_key
        return {name: self._reveal(context, settings) for name, settings in named.items()}

    def _reveal(self, context: Context, settings: SecretSettings) -> str:
        value = os.environ.get(settings.env)
        if not value:
            raise self.fail(
                context, f"the secret variable {settings.env} is not set", next="set it, run again"
            )
        return value


def launch_settings(context: Context) -> dict[str, Any]:
    """argv and environment of the release's server, with the host's absolute paths."""
    profile, release, root = context.wanted.profile, context.release, context.session.root
    serve, drafter = profile.serve, profile.drafter

    def absolute(path: str) -> str:
        return root + path[1:] if path.startswith("@/") else path

    speculation = None
    if drafter is not None:
        speculation = Speculation(
            drafter.method,
            drafter.num_speculative_tokens,
            absolute(release.drafter) if drafter.model is not None else None,
            drafter.speculative,
        )
    wanted = Serve(
        program=absolute(f"{release.environment}/bin/vllm"),
        model=sources.place(context.wanted, context.answers, "model"),
        served_name=profile.model.served_name,
        host=serve.host,
        port=serve.port,
        tensor_parallel_size=serve.tensor_parallel_size,
        max_model_len=serve.max_model_len,
        gpu_memory_utilization=serve.gpu_memory_utilization,
        dtype=serve.dtype,
        kv_cache_dtype=serve.kv_cache_dtype,
        attention_backend=serve.attention_backend,
        args=serve.args,
        speculation=speculation,
    )
    return {"argv": command(wanted), "env": environment(serve.env, serve.gpus)}


def _evidence(unit: Mapping[str, Any]) -> Evidence:
    names = ("state", "pid", "start", "started", "release", "argv", "kind", "log")
    return {name: unit.get(name) for name in names}
