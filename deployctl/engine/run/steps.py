"""The list of steps, by name."""

from __future__ import annotations

from deployctl.steps.acceptance import AcceptanceStep
from deployctl.steps.bench import BenchStep
from deployctl.steps.build import BuildStep
from deployctl.steps.clean import CleanStep
from deployctl.steps.down import DownStep
from deployctl.steps.drafter import DrafterStep
from deployctl.steps.fetch import FetchStep
from deployctl.steps.interface import Step
from deployctl.steps.launch import LaunchStep
from deployctl.steps.lossless import LosslessStep
from deployctl.steps.preflight import PreflightStep
from deployctl.steps.ready import ReadyStep
from deployctl.steps.smoke import SmokeStep
from deployctl.steps.verify import VerifyStep

STEPS: dict[str, Step] = {
    step.name: step
    for step in (
        PreflightStep(),
        BuildStep(),
        VerifyStep(),
        FetchStep(),
        DrafterStep(),
        CleanStep(),
        LaunchStep(),
        ReadyStep(),
        SmokeStep(),
        AcceptanceStep(),
        LosslessStep(),
        BenchStep(),
        DownStep(),
    )
}
