"""clean: what would stand in the way of the new server is stopped if ours, and proven gone."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from deployctl.agent.wire.gpus import StuckThread
from deployctl.errors import NotReady, RemoteError, StepError
from deployctl.hosts.operations import gpu, network, units
from deployctl.hosts.session import Session
from deployctl.steps import facts
from deployctl.steps.facts import GPUS, RELEASES, SOURCE, UNIT
from deployctl.steps.gpus import clearing, gpu_reset, profile_gpus, settling
from deployctl.steps.gpus.clean_options import CLEAN, CleanOptions, resets, stops_unit
from deployctl.steps.gpus.gpu_snapshot import GpuSnapshot, in_words, questions, snapshot, tell
from deployctl.steps.interface import (
    Answers,
    Context,
    Deployment,
    Evidence,
    Key,
    Plan,
    Question,
    Step,
    Unknown,
)
from deployctl.steps.release import release_paths
from deployctl.steps.servers import stopping
from deployctl.steps.servers.process import strangers

ROUNDS = 3
"""How often what comes back is stopped again."""
RETURNS_WITHIN = 2.0
"""Seconds in which a living parent, or a service, restarts what was stopped."""
KEPT: tuple[Key[Any], ...] = (RELEASES, SOURCE, profile_gpus.INSIDE)
"""Answers that cleaning does not change."""
STUCK_AFTER = 5.0
"""Seconds after SIGKILL from which a process counts as stuck in the kernel."""
SEEN = "seen"
"""Between `apply` and `prove`: the answers of the last look."""


class CleanStep(Step):
    """Our unit, and stale processes of ours, stopped; memory and port measured to be free."""

    name = CLEAN
    phase = "switch"
    failure = NotReady
    options = CleanOptions
    needs_release = False
    interruptible = False
    head_first = True
    idle = "nothing had to be cleaned"

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        asked = [facts.port(wanted), *questions(wanted)]
        if resets(wanted):
            asked.append(gpu_reset.question())
        return asked

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        if keeps(wanted, answers):
            evidence = {"gpu": profile_gpus.words(answers)}
            return Plan("unchanged", reason="the unit runs the wanted release", evidence=evidence)
        now = snapshot(wanted, answers)
        evidence = clearing.before(wanted, answers, now)
        reason = next(clearing.obstacles(wanted, answers, now), None)
        if reason is not None:
            return Plan("blocked", reason=reason, evidence=evidence)
        changes = tuple(clearing.changes(wanted, answers, now))
        return Plan("change" if changes else "check", changes, evidence=evidence)

    def apply(self, context: Context, plan: Plan) -> None:
        evidence = context.evidence[self.name] = {**plan.evidence, "stopped": []}
        if clearing.alive(context.answers[UNIT]):
            self._stop_unit(context, evidence)
        answers = look(context)
        now = snapshot(context.wanted, answers)
        if not now.selection.stop and not resets(context.wanted):
            evidence[SEEN] = answers
            return
        starters: list[str] = []
        for _ in range(ROUNDS):
            if not now.selection.stop:
                break
            self._stop(context, now, evidence)
            starters = clearing.starters(now.selection.stop, now)
            now = self._look_for_return(context, bool(starters))
        if now.selection.stop:
            raise self._returns(context, now, starters, evidence)
        if resets(context.wanted):
            self._reset(context, evidence)

    def prove(self, context: Context) -> Evidence:
        # Where nothing was done since the last look: on a host with GPUs one takes a second, in
        # which the service is interrupted.
        answers = context.evidence.get(self.name, {}).pop(SEEN, None) or look(context)
        now = snapshot(context.wanted, answers)
        evidence = context.evidence.setdefault(
            self.name, clearing.before(context.wanted, answers, now)
        )
        evidence["holders_after"] = [tell(verdict) for verdict in now.holders()]
        self._prove_gone(context, now, evidence)
        self._prove_memory(context, now, evidence)
        self._prove_port(context, evidence)
        return evidence

    def _stop_unit(self, context: Context, evidence: Evidence) -> None:
        context.progress("stop", f"unit {context.wanted.unit_name}")
        done = stopping.stop_unit(context.session, context.wanted, spare=True)
        evidence[stopping.REQUESTS] = done["requests"]
        for pid in done["gone"]:
            fate = "killed" if pid in done["killed"] else "ended"
            evidence["stopped"].append({"pid": pid, "fate": fate, "why": "the unit"})
        if done["left"]:
            rows = context.session.call(gpu.stuck, pids=[p["pid"] for p in done["left"]])
            raise self._survives(context, {r["pid"]: r["stuck"] for r in rows}, evidence)

    def _stop(self, context: Context, now: GpuSnapshot, evidence: Evidence) -> None:
        chosen = {v.process.pid: v for v in now.selection.stop}
        context.progress("stop", ", ".join(f"{pid} {v.process.comm}" for pid, v in chosen.items()))
        rows = context.node.call(
            gpu.stop,
            targets=[
                {"pid": pid, "start": v.process.start, "device": clearing.device_only(v)}
                for pid, v in chosen.items()
            ],
            grace=context.wanted.profile.clean.grace,
            patience=STUCK_AFTER,
        )
        evidence["stopped"] += [{**r, "command": chosen[r["pid"]].process.name} for r in rows]
        stuck = {row["pid"]: row.get("stuck", []) for row in rows if row["fate"] == "left"}
        if stuck:
            raise self._survives(context, stuck, evidence)
        refused = [str(row["pid"]) for row in rows if row["fate"] == "refused"]
        if refused:
            raise self.fail(
                context,
                f"not permitted to stop {', '.join(refused)}",
                "they are ours, but another user runs them",
                "log in to the host (or its node) as root",
                evidence,
            )

    def _survives(
        self, context: Context, stuck: Mapping[int, list[StuckThread]], evidence: Evidence
    ) -> StepError:
        pids = ", ".join(map(str, stuck))
        where = "; ".join(clearing.where_stuck(pid, threads) for pid, threads in stuck.items())
        return self.fail(
            context,
            f"PID {pids} survives SIGKILL: reboot needed",
            where,
            "reboot the machine with the GPU (the node, not the container)",
            evidence,
        )

    def _look_for_return(self, context: Context, expected: bool) -> GpuSnapshot:
        """Who is there now; what may be restarted is waited for a while."""
        deadline = time.monotonic() + (RETURNS_WITHIN if expected else 0.0)
        while True:
            now = snapshot(context.wanted, look(context))
            if now.selection.stop or time.monotonic() > deadline:
                return now

    def _returns(
        self, context: Context, now: GpuSnapshot, starters: Sequence[str], evidence: Evidence
    ) -> StepError:
        names = "; ".join(in_words(verdict) for verdict in now.selection.stop)
        return self.fail(
            context,
            f"processes come back after being stopped {ROUNDS} times",
            f"{names}, started by {', '.join(starters) or 'something that does not show'}",
            "stop what starts them, then retry",
            evidence,
        )

    def _reset(self, context: Context, evidence: Evidence) -> None:
        answers = look(context, gpu_reset.question())
        now = snapshot(context.wanted, answers)
        reason = gpu_reset.refusal(context.wanted, answers, now)
        if reason is not None:
            raise self.fail(context, "GPU reset refused", reason, evidence=evidence)
        indices = [gpu["index"] for gpu in now.gpus]
        context.progress("reset", f"GPU {', '.join(map(str, indices))}")
        evidence["reset"] = context.node.call(gpu.reset, indices=indices)

    def _prove_gone(self, context: Context, now: GpuSnapshot, evidence: Evidence) -> None:
        left = [*now.selection.stop, *now.selection.frozen]
        if left:
            raise self.fail(
                context,
                "the blocking processes came back",
                "; ".join(in_words(verdict) for verdict in left),
                "find what starts them, then retry",
                evidence,
            )

    def _prove_memory(self, context: Context, now: GpuSnapshot, evidence: Evidence) -> None:
        index = {gpu["uuid"]: str(gpu["index"]) for gpu in clearing.measured(now)}
        evidence["left_out"] = clearing.left_out(now)
        if not index:
            return
        measured = settling.settled(context, now, index)
        after = {index[uuid]: amount for uuid, amount in measured["memory"].items()}
        evidence.update(memory_after=after, settled=measured["course"], seconds=measured["seconds"])
        evidence["held"] = {
            index[uuid]: clearing.held_by(context.wanted, now, uuid, amount)
            for uuid, amount in measured["memory"].items()
            if amount != 0
        }
        if not measured["free"]:
            raise self.fail(
                context,
                "the GPUs are not free",
                "; ".join(f"GPU {i}: {text}" for i, text in evidence["held"].items()),
                "stop what holds them, widen --scope, or raise clean.free_below_mib",
                evidence,
            )

    def _prove_port(self, context: Context, evidence: Evidence) -> None:
        if context.wanted.role == "worker":
            return
        port = context.wanted.profile.serve.port
        listener = context.session.call(network.listener, port=port)
        unit = context.session.call(units.state, **context.wanted.unit_id)
        others = strangers(listener, unit)
        evidence["port"] = {"port": port, "listening": listener["listening"], "holders": others}
        if listener["listening"] and (others or not listener["holders"]):
            who = ", ".join(f"PID {h['pid']} {h['command'] or h['comm']!r}" for h in others)
            raise self.fail(
                context,
                f"port {port} is still held",
                f"by {who}"
                if who
                else f"by no visible process: {listener['unknown'] or 'unknown'}",
                "stop it or choose another serve.port",
                evidence,
            )

    def sentence(self, ended: Mapping[str, Any]) -> str:
        if ended["status"] == "unchanged":
            return ""
        evidence = ended["evidence"]
        count = f"{len(evidence.get('stopped') or ())} processes stopped"
        stopped = ", ".join(part for part in (count, stopping.in_words(evidence)) if part)
        after = evidence.get("memory_after")
        if not after:
            gpu = str(evidence.get("gpu", ""))
            return f"{stopped}, no GPU" if gpu.startswith("absent") else stopped
        before = evidence.get("memory_before") or {}
        course = [f"GPU {i}: {_mib(before.get(i))} -> {_mib(mib)}" for i, mib in after.items()]
        return ", ".join((stopped, *course))


def _mib(amount: int | None) -> str:
    return "unknown" if amount is None else f"{amount} MiB"


def keeps(wanted: Deployment, answers: Answers) -> bool:
    """Whether the unit already runs what is wanted: then nothing is to be cleaned away."""
    serving = answers[UNIT]["state"] in ("starting", "running")
    if not serving or stops_unit(wanted) or wanted.restart:
        return False
    return bool(answers[UNIT]["release"] == release_paths(wanted, answers).release)


def look(context: Context, *more: Question[Any]) -> Answers:
    """Fresh answers about who is there, from the host and its node at the same time, and of the
    GPUs beside the processes; what cleaning does not change is taken from the answers of the
    plan."""
    known: dict[str, Any] = {
        key: value for key in KEPT if (value := context.answers.get(key)) is not None
    }
    asked = {question.key: question for question in (*questions(context.wanted), *more)}
    fresh = [question for key, question in asked.items() if key not in known]
    gpus = [q for q in fresh if q.key == GPUS]
    here = [q for q in fresh if q.key != GPUS and q.where == "host"]
    there = [q for q in fresh if q not in here and q not in gpus]
    with ThreadPoolExecutor(max_workers=2) as pool:
        node = [pool.submit(_ask, context.node, part) for part in (gpus, there)]
        answers = {**known, **_ask(context.session, here)}
        return Answers({**answers, **{k: v for one in node for k, v in one.result().items()}})


def _ask(session: Session, asked: Sequence[Question[Any]]) -> dict[str, Any]:
    if not asked:
        return {}
    answers = session.ask([question.call for question in asked])
    return {
        question.key: Unknown(answer.kind, answer.message)
        if isinstance(answer, RemoteError)
        else answer
        for question, answer in zip(asked, answers, strict=True)
    }
