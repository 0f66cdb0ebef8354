"""From the shape of a bad acceptance to its likely causes, each with what can be checked.

The signatures were seen in the field; a cause that a check confirms is no longer a guess, and a
cause that a check rules out is reported as such. Nothing here touches a server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Outcome = Literal["confirmed", "ruled out", "unknown"]
Checked = tuple[Outcome, str]

LOW_FIRST = 0.35
"""Rate of the first position below which the drafter hardly sees its target. Wrong mask tokens,
shuffled layers and stale configs of a trained pair lie at 0.1 to 0.3, right ones above 0.6."""
VANISHED = 0.02
"""A rate at which a position counts as never accepted."""


@dataclass(frozen=True)
class Facts:
    """What is known about a measurement and the server it was made on; None is not known.

    `expected` is the mean acceptance length of the last good release or of a reference for this
    very pair. `early` and `late` are the lengths over the first and the last third of the
    requests. `window` is the drafter's sliding window in tokens, 0 where no layer slides.
    `differences` are the keys of the drafter's config.json that are not as wanted. `multimodal`
    says whether the target is more than a language model.
    """

    per_position: Sequence[float | None]
    length: float
    expected: float | None = None
    early: float | None = None
    late: float | None = None
    longest_prompt: int | None = None
    window: int | None = None
    thinking: bool | None = None
    differences: Sequence[Mapping[str, Any]] | None = None
    fixes: Mapping[str, str] = field(default_factory=dict)
    runner: Literal["V1", "V2"] | None = None
    backend: str | None = None
    capability: float | None = None
    prefix_hits: int | None = None
    method: str | None = None
    multimodal: bool | None = None


@dataclass(frozen=True)
class Cause:
    """One possible cause, and how the facts speak for or against it."""

    what: str
    check: Callable[[Facts], Checked]


@dataclass(frozen=True)
class Signature:
    """A shape of bad acceptance, and its causes, the likeliest first."""

    name: str
    shape: str
    matches: Callable[[Facts], bool]
    causes: tuple[Cause, ...]


def diagnose(facts: Facts) -> list[dict[str, Any]]:
    """Causes as data: what, signature, result and reason; confirmed ones first.

    Where a check has confirmed a cause, those that could not be checked are left out.
    """
    found = [
        {"signature": signature.name, "shape": signature.shape, "cause": cause.what}
        | dict(zip(("result", "reason"), cause.check(facts), strict=True))
        for signature in SIGNATURES
        if signature.matches(facts)
        for cause in signature.causes
    ]
    unique = list({one["cause"]: one for one in reversed(found)}.values())[::-1]
    confirmed = [one for one in unique if one["result"] == "confirmed"]
    unknown = [] if confirmed else [one for one in unique if one["result"] == "unknown"]
    return [*confirmed, *unknown, *(one for one in unique if one["result"] == "ruled out")]


# -- checks ------------------------------------------------------------------------------------


def _differs(*keys: str) -> Callable[[Facts], Checked]:
    """Whether one of these keys of the drafter's config.json is not as wanted."""

    def check(facts: Facts) -> Checked:
        if facts.differences is None:
            return "unknown", "the profile names no wanted values, or config.json was not readable"
        wrong = [d for d in facts.differences if any(key in str(d["key"]) for key in keys)]
        if wrong:
            said = (f"{d['key']} is {d['actual']}, wanted {d['wanted']}" for d in wrong)
            return "confirmed", "; ".join(said)
        return "ruled out", "config.json is as the profile wants it"

    return check


def _concern(name: str, facts: Facts) -> Checked | None:
    """Why a fix does not concern this pair, or why that is not known; None where it does."""
    if name.startswith("dflash-") and facts.method not in (None, "dflash"):
        return "ruled out", f"fix {name} concerns DFlash, the method is {facts.method}"
    if name == "dflash-sliding-window":
        return _slides_past(facts)
    if name == "dflash-lm-head":
        return _head_elsewhere(facts)
    return None


def _slides_past(facts: Facts) -> Checked | None:
    if facts.window == 0:
        return "ruled out", "no layer of the drafter has a sliding window"
    if facts.window is None or facts.longest_prompt is None:
        return "unknown", "the drafter's window or the prompts' length is not known"
    if facts.longest_prompt <= facts.window:
        return "ruled out", f"no prompt was longer than the window of {facts.window} tokens"
    return None


def _head_elsewhere(facts: Facts) -> Checked | None:
    if facts.runner == "V1":
        return "ruled out", "only the V2 model runner looked beside the head, this is V1"
    if facts.multimodal is False:
        return "ruled out", "the target is a language model, its head is where it is looked for"
    if facts.runner is None or facts.multimodal is None:
        return "unknown", "the model runner, or whether the target is multimodal, is not known"
    return None


def _fix(name: str) -> Callable[[Facts], Checked]:
    """Whether the build lacks a fix that concerns this pair."""

    def check(facts: Facts) -> Checked:
        concern = _concern(name, facts)
        if concern is not None and concern[0] == "ruled out":
            return concern
        verdict = facts.fixes.get(name)
        if verdict is None:
            return "unknown", f"fix {name} was not probed"
        if verdict == "v2-only" and facts.runner is not None:
            verdict = "present" if facts.runner == "V2" else "absent on this runner"
        if verdict == "present":
            return "ruled out", f"fix {name} is present"
        if concern is not None:
            return concern
        if verdict.startswith("absent"):
            return "confirmed", f"fix {name} is {verdict}"
        return "unknown", f"fix {name} is {verdict}"

    return check


def _window(facts: Facts) -> Checked:
    verdict, reason = _fix("dflash-sliding-window")(facts)
    if _concern("dflash-sliding-window", facts) is not None:
        return verdict, reason
    longest = f"prompts of up to {facts.longest_prompt} tokens, a window of {facts.window}"
    return verdict, f"{reason}; {longest}"


def _runner(facts: Facts) -> Checked:
    if facts.runner is None:
        return "unknown", "the log does not say which model runner is used"
    if facts.runner == "V1":
        only_v2 = [name for name, verdict in facts.fixes.items() if verdict == "v2-only"]
        checked = {name: _fix(name)(facts) for name in only_v2}
        missed = [name for name, (result, _) in checked.items() if result == "confirmed"]
        if missed:
            return "confirmed", f"{', '.join(missed)} only on the V2 model runner, this is V1"
        for name, (result, reason) in checked.items():
            if result == "unknown":
                return "unknown", f"{name} is only on the V2 model runner: {reason}"
    return "ruled out", f"the {facts.runner} model runner, as its fixes need it"


def _backend(facts: Facts) -> Checked:
    if facts.backend is None:
        return "unknown", "the log does not say which attention backend is used"
    if "FLASHINFER" not in facts.backend.upper():
        return "ruled out", f"the attention backend is {facts.backend}"
    if facts.capability is None:
        return "unknown", "the attention backend is FlashInfer, the GPU's capability is not known"
    if facts.capability >= 10:
        return "confirmed", f"FlashInfer on a GPU of capability {facts.capability:g}"
    return "ruled out", f"FlashInfer, but on a GPU of capability {facts.capability:g}"


def _thinking(facts: Facts) -> Checked:
    if facts.thinking is None:
        return "unknown", "the thinking mode is not pinned: set acceptance.thinking"
    return "ruled out", f"the thinking mode is pinned: {'on' if facts.thinking else 'off'}"


def _few(facts: Facts) -> Checked:
    if facts.early is None or facts.late is None:
        return "unknown", "single requests were not counted"
    said = f"{facts.early:.2f} over the first third of the requests, {facts.late:.2f} over the last"
    return "confirmed", said


def _cache_drop(facts: Facts) -> Checked:
    verdict, reason = _fix("dflash-cache-drop")(facts)
    return verdict, f"{reason}; this costs time to first token, not acceptance"


def _unseen(what: str) -> Callable[[Facts], Checked]:
    return lambda facts: ("unknown", what)


# -- shapes ------------------------------------------------------------------------------------


def _first(facts: Facts) -> float:
    return (facts.per_position[0] if facts.per_position else None) or 0.0


def _vanishes(facts: Facts) -> bool:
    rates = [rate or 0.0 for rate in facts.per_position]
    return len(rates) > 3 and _first(facts) >= VANISHED and max(rates[4:], default=1.0) < VANISHED


def _low_everywhere(facts: Facts) -> bool:
    return _first(facts) < LOW_FIRST


def _half_of_expected(facts: Facts) -> bool:
    return facts.expected is not None and 1 < facts.length < 0.75 * facts.expected


def _falls_with_time(facts: Facts) -> bool:
    return facts.early is not None and facts.late is not None and facts.late < 0.8 * facts.early


def _no_prefix_hits(facts: Facts) -> bool:
    return facts.prefix_hits == 0 and (facts.longest_prompt or 0) >= 1000


MASK = Cause("wrong mask_token_id", _differs("mask_token_id"))
LAYERS = Cause("wrong target_layer_ids", _differs("target_layer_ids", "aux_hidden_state_layer_ids"))
OFFSET = Cause("the target's layers are counted one off", _fix("dflash-layer-offset"))
WINDOW_KEYS = Cause(
    "the drafter's window settings are wrong",
    _differs("sliding_window", "layer_types", "swa_window_size"),
)
FULL_ATTENTION = Cause("sliding-window layers run as full attention", _window)
RUNNER = Cause("the wrong model runner", _runner)
BACKEND = Cause("FlashInfer on Blackwell", _backend)
LM_HEAD = Cause("the drafter does not share the target's lm_head", _fix("dflash-lm-head"))
THINKING = Cause("thinking is on where the figure was taken with it off, or off for on", _thinking)
OTHER_PAIR = Cause(
    "drafter and target do not belong together",
    _unseen("compare the drafter's card with the target's exact name and revision"),
)

SIGNATURES: tuple[Signature, ...] = (
    Signature(
        "low from the first position",
        f"the first position is accepted in fewer than {LOW_FIRST:.0%} of the drafts",
        _low_everywhere,
        (MASK, LAYERS, OFFSET, FULL_ATTENTION, WINDOW_KEYS, RUNNER, LM_HEAD, BACKEND, OTHER_PAIR),
    ),
    Signature(
        "positions vanish",
        "positions after the first four are never accepted",
        _vanishes,
        (FULL_ATTENTION, WINDOW_KEYS, RUNNER),
    ),
    Signature(
        "far below what this pair reaches",
        "less than three quarters of the last good release or the pair's reference",
        _half_of_expected,
        (OFFSET, LAYERS, THINKING, FULL_ATTENTION),
    ),
    Signature(
        "falls with time",
        "high over the first requests, low after",
        _falls_with_time,
        (Cause("too few drafts: the first requests are not like the rest", _few),),
    ),
    Signature(
        "no prefix-cache hits",
        "long prompts with the same beginning were never found in the prefix cache",
        _no_prefix_hits,
        (Cause("the cache drops the last block for DFlash", _cache_drop),),
    ),
)
