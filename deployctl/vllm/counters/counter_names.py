"""The names under which servers count speculation, and the sums of their samples.

One name has a prefix of its program, a stem, and `_total` where the writer adds it:

- vLLM (vllm/v1/spec_decode/metrics.py), Ray's `ray_vllm:` and `ray_vllm_`, llama.cpp's server:
  spec_decode_num_drafts, …_num_draft_tokens, …_num_accepted_tokens, and both `…_per_pos`.
- TensorRT-LLM: spec_decode_drafted_tokens and spec_decode_accepted_tokens by `token_position`;
  older ones spec_decode_num_draft_tokens and …_num_accepted_tokens, without drafts.

vLLM V0 has spec_decode_num_emitted_tokens: its counters add a running total again at each look,
so no count follows from them. SGLang has gauges of the last batches and no counts of drafts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from deployctl.vllm.counters.counts import Counts
from deployctl.vllm.counters.unreadable import Unreadable, whole

NAME = re.compile(
    r"(?P<prefix>(?:[a-zA-Z0-9_]+[:_])??)(?P<stem>spec_decode_(?:num_(?:drafts|emitted_tokens"
    r"|draft_tokens_per_pos|accepted_tokens_per_pos|draft_tokens|accepted_tokens)"
    r"|drafted_tokens|accepted_tokens)"
    r"|generation_tokens|request_success|prefix_cache_hits)(?:_total)?"
)
DRAFTS, DRAFTED, ACCEPTED = (
    f"spec_decode_num_{name}" for name in ("drafts", "draft_tokens", "accepted_tokens")
)
EMITTED = "spec_decode_num_emitted_tokens"
AT_POSITION = {
    "spec_decode_num_draft_tokens_per_pos": "position",
    "spec_decode_num_accepted_tokens_per_pos": "position",
    "spec_decode_drafted_tokens": "token_position",
    "spec_decode_accepted_tokens": "token_position",
}
"""Stems that are counted by position, and the label that tells it."""
MENTION = re.compile(
    r"spec[a-z_]*(?:decode|accept|verify|draft)|accept(?:ed|ance)_(?:len|rate|tokens)"
    r"|draft_(?:tokens|accept)|skipped_tokens",
    re.IGNORECASE,
)
"""Other words for speculation, in the name of a metric."""
LAST_POSITION = 4095
"""Far beyond any drafter's tokens."""
QUOTED = 200


def mentions(line: str) -> bool:
    """Whether a sample's name is about speculation."""
    return MENTION.search(re.split(r"[{\s]", line.strip(), maxsplit=1)[0]) is not None


class Sums:
    """Samples of one reading, summed over engines and kept apart by program and model."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], _Group] = defaultdict(_Group)

    def add(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """One sample; those that count something else are passed over."""
        found = NAME.fullmatch(name)
        if found is None:
            return
        stem, label = found["stem"], AT_POSITION.get(found["stem"])
        group = self._groups[found["prefix"], labels.get("model_name", "")]
        if label is None:
            group.sums[stem] += value
        elif label in labels:
            position = _position(labels[label])
            group.rows[stem][position] += value

    @property
    def of_vllm(self) -> bool:
        """Whether vLLM wrote this."""
        return any(_of_vllm(prefix) for prefix, _ in self._groups)

    def whole(self, stem: str) -> int | None:
        """One of vLLM's counters that is not about speculation; None where the text lacks it."""
        found: dict[str, float] = defaultdict(float)
        for (prefix, _), group in self._groups.items():
            if _of_vllm(prefix) and stem in group.sums:
                found[prefix] += group.sums[stem]
        return whole(next(iter(found.values())), stem) if found else None

    def speculation(self, model: str | None) -> Counts | None:
        """Counts of drafts; None where there are none that can be understood.

        Raises `Unreadable` where several models or programs are counted, which must not be added.
        """
        made = {
            key: counts
            for key, group in self._named().items()
            if (counts := group.counts(key[0])) is not None
        }
        models = {name for _, name in made}
        if len(models) > 1 and model not in models:
            raise Unreadable(
                f"several models are counted ({', '.join(sorted(models))}): name one with --model"
            )
        meant = [key for key in made if len(models) == 1 or key[1] == model]
        if len({made[key] for key in meant}) > 1:
            programs = ", ".join(f"{prefix}spec_decode_…" for prefix, _ in sorted(meant))
            raise Unreadable(f"speculation is counted several times and not alike: {programs}")
        return made[meant[0]] if meant else None

    def _named(self) -> Mapping[tuple[str, str], _Group]:
        """The groups, where samples without a model's name belong to the only named model."""
        named = {name for _, name in self._groups} - {""}
        if len(named) != 1:
            return self._groups
        (only,) = named
        joined: dict[tuple[str, str], _Group] = defaultdict(_Group)
        for (prefix, _), group in self._groups.items():
            joined[prefix, only].join(group)
        return joined


class _Group:
    """The sums of one program and model."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = defaultdict(float)
        self.rows: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))

    def join(self, other: _Group) -> None:
        """Add another group's sums."""
        for stem, value in other.sums.items():
            self.sums[stem] += value
        for stem, row in other.rows.items():
            for position, value in row.items():
                self.rows[stem][position] += value

    def counts(self, prefix: str) -> Counts | None:
        """Its counts of drafts, as far as its program tells them."""
        drafted, accepted = (
            self._row(prefix, f"spec_decode_{name}_tokens") for name in ("drafted", "accepted")
        )
        if drafted:
            # A draft proposes a token at the first position in any case.
            return Counts(drafted[0], sum(drafted), sum(accepted), accepted, drafted)
        if EMITTED in self.sums or not {DRAFTS, DRAFTED, ACCEPTED} & self.sums.keys():
            return None
        return Counts(
            self._count(prefix, DRAFTS) if DRAFTS in self.sums else None,
            self._count(prefix, DRAFTED),
            self._count(prefix, ACCEPTED),
            self._row(prefix, f"{ACCEPTED}_per_pos"),
            self._row(prefix, f"{DRAFTED}_per_pos") or None,
        )

    def _count(self, prefix: str, stem: str) -> int:
        return whole(self.sums.get(stem, 0.0), prefix + stem)

    def _row(self, prefix: str, stem: str) -> tuple[int, ...]:
        row = self.rows.get(stem, {})
        places = range(max(row, default=-1) + 1)
        return tuple(whole(row.get(place, 0.0), prefix + stem) for place in places)


def _of_vllm(prefix: str) -> bool:
    return prefix.endswith(("vllm:", "vllm_"))


def _position(label: str) -> int:
    if len(label) > 4 or not label.isdecimal() or int(label) > LAST_POSITION:
        raise Unreadable(f"{label[:20]!r} is not a position of a draft token")
    return int(label)
