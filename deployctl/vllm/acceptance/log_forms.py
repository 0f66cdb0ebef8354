"""Every published form of a line that counts speculation, and lines that only mention it.

Fields came, moved and were renamed, so each is found by its name, in any order:

- vLLM V1, `SpecDecoding metrics:` (0.8.3 on; before that `Speculative metrics:`), about every ten
  seconds, since the line before (vllm/v1/spec_decode/metrics.py); vLLM-Ascend, the Rust front end
  and forks print the same with other prefixes and further fields.
- vLLM V0, `Speculative metrics:` with emitted tokens, from the server's start on
  (vllm/engine/metrics.py). Its accepted tokens include matches behind the first rejected one, so
  only the emitted ones tell the length.
- llama.cpp's server, `draft acceptance = … ( A accepted / G generated)` for each request, and
  `statistics KIND: …` from its start on (tools/server, common/speculative.cpp).

SGLang's `accept len: …` and whatever else has a figure of acceptance in it are not understood: no
count follows from a rate alone.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass, replace

from deployctl.vllm.acceptance.window import Window, drafts_of, meaning

LONGEST = 1 << 14
"""Characters of a line that are looked at."""
COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
VLLM = re.compile(r"(?<!\w)Spec(?:Decoding|ulative) metrics: *(?P<fields>.*)$")
LLAMA = re.compile(r"draft acceptance(?: rate)? *= *(?P<fields>.*)$")
BEGINS = re.compile(r"(?<!\w)Spec(?:Decoding|ulative) metrics:|draft acceptance(?: rate)? *=")
STATISTICS = re.compile(r"\bstatistics +(?P<kind>[\w-]+): *(?P<fields>.*#gen tokens.*)$")
NUMBER = r"(-?nan|-?\d+(?:\.\d+)?)"
COUNT = r"(\d{1,15})(?!\d|\.\d)"
LENGTH = re.compile(rf"Mean acceptance length: *{NUMBER}", re.IGNORECASE)
RATE = re.compile(rf"Draft acceptance rate: *{NUMBER} *(%?)", re.IGNORECASE)
ACCEPTED = re.compile(
    rf"\b(?:Accepted: *{COUNT} tokens|Number of accepted tokens(?: tokens)?: *{COUNT}\b)",
    re.IGNORECASE,
)
DRAFTED = re.compile(
    rf"\b(?:Drafted: *{COUNT} tokens|Number of draft tokens(?: tokens)?: *{COUNT}\b)",
    re.IGNORECASE,
)
EMITTED = re.compile(rf"Number of emitted tokens(?: tokens)?: *{COUNT}\b", re.IGNORECASE)
EACH = re.compile(rf"Number of speculative tokens: *{COUNT}\b", re.IGNORECASE)
EFFICIENCY = re.compile(rf"System efficiency: *{NUMBER}", re.IGNORECASE)
POSITIONS = re.compile(
    rf"Per-position acceptance rate: *({NUMBER}(?: *, *{NUMBER})*)", re.IGNORECASE
)
LLAMA_COUNTS = re.compile(rf"\( *{COUNT} *(?:accepted)? */ *{COUNT} *(?:generated)? *\)")
LLAMA_LENGTH = re.compile(rf"mean (?:acceptance length|len) *= *{NUMBER}")
LLAMA_POSITIONS = re.compile(rf"acceptance rate per position *= *\( *({NUMBER}(?:, *{NUMBER})*)\)")
DIFFUSION = re.compile(r"(?<!\w)DiffusionDecoding metrics:")
OPTIONS = re.compile(r"SpeculativeConfig\(|non-default args|server_args=|speculative_config=\{")
MENTION = re.compile(
    r"(?:accept(?:ed|ance)?[ _-]?(?:len(?:gth)?|rates?|ratio|tokens?)"
    r"|draft[ _-]accept\w*|spec\w*[ _-]?decod\w*[ _-](?:metrics|stats))"
    r"(?![a-z])\D{0,60}\d",
    re.IGNORECASE,
)
"""A figure of acceptance in words that other programs use."""
NO_SPECULATION = re.compile(r"\bspeculative_config=None\b")
"""vLLM's own line on its configuration, without a drafter."""


@dataclass(frozen=True)
class Line:
    """A line of a log: a window, or a mention of speculation that is not understood."""

    window: Window | None = None
    mentions: bool = False
    plain: bool = False
    """vLLM says that it was started without speculation."""


NOTHING = Line()


def pieces(text: str) -> list[str]:
    """A line of a file, cut where the figures of another line begin: lines that were written by
    several processes at once, or joined by who copied them, lie in one."""
    begin = [found.start() for found in BEGINS.finditer(text)]
    if len(begin) < 2:
        return [text]
    cuts = [0, *begin[1:], len(text)]
    return [text[start:end] for start, end in itertools.pairwise(cuts)]


def read(text: str) -> Line:
    """What one line says about speculation."""
    text = COLOURS.sub("", text[:LONGEST])
    for pattern, reader in ((VLLM, _vllm), (STATISTICS, _statistics), (LLAMA, _llama)):
        found = pattern.search(text)
        if found is not None:
            window = reader(found)
            return Line(window, mentions=window is None)
    if NO_SPECULATION.search(text):
        return Line(plain=True)
    if DIFFUSION.search(text) or OPTIONS.search(text):
        return NOTHING
    return Line(mentions=MENTION.search(text) is not None)


def _vllm(found: re.Match[str]) -> Window | None:
    fields = found["fields"]
    accepted, drafted = _count(ACCEPTED, fields), _count(DRAFTED, fields)
    if accepted is None or drafted is None:
        return None
    if EMITTED.search(fields):
        return _v0(fields, accepted, drafted)
    length, rates = _number(LENGTH, fields), _rates(POSITIONS, fields)
    return _with_rates(Window(accepted, drafted, length, _rate(fields), rates))


def _v0(fields: str, accepted: int, drafted: int) -> Window:
    """V0 counts from the start on; where its efficiency is `nan`, a fork counts by window."""
    each, emitted = _count(EACH, fields), _count(EMITTED, fields) or 0
    efficiency = _number(EFFICIENCY, fields)
    drafts = None
    if each and drafted % each == 0:
        drafts = drafted // each
        printed = emitted / (drafts * (each + 1)) if drafts else None
        if efficiency is not None and printed is not None and abs(printed - efficiency) > 0.0006:
            drafts = None
    running = efficiency is not None
    length = emitted / drafts if drafts else None
    return Window(
        accepted,
        drafted,
        length,
        _rate(fields),
        drafts=drafts,
        program="vllm-v0",
        each=each,
        emitted=emitted,
        running=running,
        source="v0",
    )


def _llama(found: re.Match[str]) -> Window | None:
    fields = found["fields"]
    counts = LLAMA_COUNTS.search(fields)
    if counts is None:
        return None
    accepted, drafted = int(counts[1]), int(counts[2])
    rate = accepted / drafted if drafted else None
    length, rates = _number(LLAMA_LENGTH, fields), _rates(LLAMA_POSITIONS, fields)
    return _with_rates(Window(accepted, drafted, length, rate, rates, program="llama.cpp"))


def _with_rates(window: Window) -> Window:
    """A window with what its rates by position mean, and the drafts that follow from them."""
    means = meaning(window.length, window.positions)
    # llama.cpp prints as many positions as a request reached, vLLM as many as a draft may have.
    each = len(window.positions) if means != "unknown" and window.program == "vllm" else None
    window = replace(window, rates_of=means, each=each)
    if not window.idle and means != "drafts":
        return window
    return replace(window, drafts=drafts_of(window))


def _statistics(found: re.Match[str]) -> Window | None:
    """`#calls(b,g,a)` counts how often it began, generated and was verified."""
    fields = found["fields"]
    accepted = _count(re.compile(rf"#acc tokens *= *{COUNT}"), fields)
    drafted = _count(re.compile(rf"#gen tokens *= *{COUNT}"), fields)
    verified = re.search(r"#calls\(b,g,a\) *= *\d+ +\d+ +(\d{1,15})\b", fields)
    made = _count(re.compile(rf"#gen drafts *= *{COUNT}"), fields)
    if accepted is None or drafted is None:
        return None
    drafts = int(verified[1]) if verified else made
    return Window(
        accepted,
        drafted,
        drafts=drafts if drafts and drafts <= drafted and accepted <= drafted else None,
        program="llama.cpp",
        running=True,
        source=found["kind"],
    )


def _count(pattern: re.Pattern[str], fields: str) -> int | None:
    found = pattern.search(fields)
    return None if found is None else int(next(group for group in found.groups() if group))


def _number(pattern: re.Pattern[str], fields: str) -> float | None:
    found = pattern.search(fields)
    return None if found is None else _value(found[1])


def _rate(fields: str) -> float | None:
    """A rate from 0 to 1: early lines print a fraction, later ones per cent."""
    found = RATE.search(fields)
    value = None if found is None else _value(found[1])
    if found is None or value is None:
        return None
    return value / 100 if found[2] else value


def _rates(pattern: re.Pattern[str], fields: str) -> tuple[float | None, ...]:
    found = pattern.search(fields)
    return () if found is None else tuple(_value(text) for text in found[1].split(","))


def _value(text: str) -> float | None:
    value = float(text)
    return None if math.isnan(value) else value
