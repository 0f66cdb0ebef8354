"""launch: the wanted release's server runs under supervision, started by us, known by its pid."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deployctl.agent.wire.answers import UnitState
from deployctl.config.base import Settings
from deployctl.errors import DeployError, NotReady
from deployctl.hosts.operations import files, units
from deployctl.steps import facts
from deployctl.steps.builds import built
from deployctl.steps.drafter import DrafterStep
from deployctl.steps.facts import DRAFTER, RELEASES, UNIT
from deployctl.steps.interface import (
    RELEASE_PARTS,
    SERVER,
    Answers,
    Change,
    Context,
    Deployment,
    Evidence,
    Plan,
    Question,
    Step,
    Unanswered,
)
from deployctl.steps.models import sources
from deployctl.steps.release import release_paths
from deployctl.steps.servers import ranks, ray, sleeping, warming
from deployctl.steps.servers.process import RUNNING, loaded_otherwise
from deployctl.steps.servers.rendering import render, secret_values, unset_secrets
from deployctl.steps.servers.serving import objections
from deployctl.steps.servers.stopping import REQUESTS, in_words, listening, stop_unit
from deployctl.steps.servers.watched import watched
from deployctl.vllm.logs.server import explain
from deployctl.vllm.serving.command import drained_within

OWN = ("cwd", "run_as")
"""Of launch settings: what an adopted server was started in and as whom."""
ADOPTED = "an adopted server is started as it was found"
ALWAYS = "always"
"""A playbook's option: restart the server although it runs as wanted."""


class LaunchOptions(Settings):
    """launch: when to restart the server."""

    always: bool = False
    """Although the wanted release runs."""


class LaunchStep(Step):
    """Starts the server of the release; what runs already and is wanted stays untouched."""

    name = "launch"
    phase = "switch"
    failure = NotReady
    options = LaunchOptions
    produces = frozenset({SERVER})
    uses = RELEASE_PARTS
    again = ALWAYS
    runs_release = True
    interruptible = False
    idle = "the requested release serves"

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        return [facts.unit(wanted), facts.shared_memory(), *facts.place(wanted)]

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        unit = answers[UNIT]
        release = release_paths(wanted, answers).release
        runs = unit["release"] if unit["state"] in RUNNING else None
        # Where a release is named, it is to serve; that it does is enough.
        always = wanted.pinned is None and wanted.option(self.name, ALWAYS, False)
        restart = runs == release and (always or bool(wanted.restart))
        other = loaded_otherwise(wanted, answers) if runs == release else ""
        if runs == release and unit["supervised"] and not restart and not other:
            return Plan("unchanged", evidence=_evidence(unit))
        # Before anything is stopped: without a secret, the release before would not start either.
        wrong = [*unset_secrets(wanted), *objections(wanted, answers)]
        if wrong:
            return Plan("blocked", reason="; ".join(wrong))
        why = unit["state"] if runs is None else ""
        if runs == release:
            why = wanted.restart or "asked for" if restart else other or "it is not supervised"
        changes = (Change("server", runs, release, why), *ray.planned(wanted))
        return Plan("change", changes)

    def warm_up(self, context: Context) -> None:
        evidence: Evidence = {}
        said = warming.unwanted(context.wanted)
        if not said:
            try:
                start = self._start(context)
                if any(key in start for key in OWN):
                    said = ADOPTED
                else:
                    evidence[warming.AHEAD] = warming.read_ahead(context, start)
                    said = warming.begin(context, start)
            except (DeployError, Unanswered) as error:
                said = str(error)
        context.evidence[self.name] = {**evidence, warming.PLAIN: said}

    def apply(self, context: Context, plan: Plan) -> None:
        wanted, session = context.wanted, context.session
        start = self._start(context)
        unit = session.call(units.state, **wanted.unit_id)
        evidence = context.evidence.setdefault(self.name, {})
        if unit["state"] in RUNNING or unit["members"]:
            context.progress("stop", f"release {unit['release']}, pid {unit['pid']}")
            evidence[REQUESTS] = stop_unit(session, wanted, spare=True)["requests"]
        context.progress("start", " ".join(start["argv"]))
        drafts = sources.source(wanted, DRAFTER) is not None
        start["secrets"] = {**start["secrets"], **ray.token(context)}
        started = session.call(
            units.start,
            **wanted.unit_id,
            **start,
            scratch=ray.cluster(wanted) is not None,
            bond=ranks.bond(context),
            watch=[f"{context.release.drafter}/config.json"] if drafts else [],
            liveness=watched(wanted.profile, start["argv"]),
        )
        evidence[warming.PLAIN] = evidence.get(warming.PLAIN) or started.get("plain")

    def _start(self, context: Context) -> dict[str, Any]:
        """How the server is started, warm or not."""
        serve = context.wanted.profile.serve
        values = secret_values(self, context)
        launch = self._launch(context)
        return {
            "argv": ray.bounded(
                drained_within(launch["argv"], serve.args, serve.stop_grace), context.wanted
            ),
            "env": launch["env"],
            "secrets": values,
            "release": context.release.release,
            "grace": serve.stop_grace,
            "supervisor": serve.supervisor,
            "guard": sleeping.guard(launch["argv"]),
            **{key: launch[key] for key in OWN if key in launch},
        }

    def prove(self, context: Context) -> Evidence:
        unit = context.session.call(units.state, **context.wanted.unit_id)
        evidence = {**context.evidence.get(self.name, {}), **_evidence(unit)}
        if unit["state"] not in RUNNING:
            log = context.session.call(units.log, **context.wanted.unit_id, offset=-65536)
            known = explain(log["text"])
            raise self.fail(
                context,
                known.sentence or f"the server ended at once, status {unit['rc']}",
                unit["error"] or "\n".join(known.lines) or log["text"].strip()[-2000:],
                known.next or "fix the cause shown in the log and retry",
                evidence,
            )
        return evidence

    def manifest(self, evidence: Mapping[str, Any]) -> dict[str, Any]:
        return {self.name: evidence.get("argv")}

    def sentence(self, ended: Mapping[str, Any]) -> str:
        evidence = ended["evidence"]
        begun = warming.sentence(evidence) if ended["status"] == "changed" else ""
        url = listening(evidence.get("argv") or ())
        at = f"at {url}/v1" if url else ""
        return ", ".join(part for part in (at, begun, in_words(evidence)) if part)

    def _launch(self, context: Context) -> dict[str, Any]:
        """The launch settings of this release. A sealed release keeps those it was proven with."""
        path = f"{context.release.directory}/launch.json"
        releases = context.answers[RELEASES]["releases"]
        if releases.get(context.release.release):
            kept = context.session.call(files.read, path=path)
            if kept["text"] is not None:
                sealed: dict[str, Any] = json.loads(kept["text"])
                self._refuse_drift(context, sealed)
                return sealed
        launch = render(self, context)
        if sources.source(context.wanted, DRAFTER) is not None:
            launch["drafter_config"] = self._proven_config(context)
        text = json.dumps(launch, indent=2) + "\n"
        if ray.cluster(context.wanted) is not None:
            node = f"{context.release.directory}/{ray.PROGRAM}"
            context.session.call(files.write, path=node, text=ray.program())
        context.session.call(files.write, path=path, text=text)
        return launch

    def _proven_config(self, context: Context) -> str:
        """The drafter's config.json as the drafter step proved it, read once more."""
        path = f"{context.release.drafter}/config.json"
        text = context.session.call(files.read, path=path)["text"]
        proven = context.evidence.get(DrafterStep.name, {}).get("sha256")
        if text is None or (proven and built.sha256(text) != proven):
            raise self._drifted(context, path)
        return str(text)

    def _refuse_drift(self, context: Context, sealed: Mapping[str, Any]) -> None:
        """The config on disk must still be the one that this release was proven with."""
        wanted = sealed.get("drafter_config")
        if wanted is None:
            return
        path = f"{context.release.drafter}/config.json"
        if context.session.call(files.read, path=path)["text"] == wanted:
            return
        if context.wanted.pinned is None:
            raise self._drifted(context, path)
        context.log(f"{path} had drifted: put back as it was proven")
        context.session.call(files.write, path=path, text=wanted)

    def _drifted(self, context: Context, path: str) -> NotReady:
        profile = context.wanted.profile.name
        failure = self.fail(
            context,
            "the drafter's config drifted: it is not what was proven",
            f"{path} was changed by something else",
            f"run: deployctl up --profile {profile} (its drafter step fixes it)",
        )
        assert isinstance(failure, NotReady)
        return failure


def _evidence(unit: UnitState) -> Evidence:
    names = ("state", "pid", "start", "started", "release", "argv", "kind", "log", "warm")
    return {name: unit.get(name) for name in names}
