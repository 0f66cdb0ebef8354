"""How many prompts a verdict on acceptance takes: the sequential rule against a fixed size.

Requests recorded on a real server (tests/cases/acceptance/recorded.json) are drawn with
replacement and judged as `deployctl acceptance` judges them, against several floors. For each
floor: the verdicts, and the prompts they took, where a rule of fixed size takes all of them.

    python bench/acceptance_rule.py [REPEATS]
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path

from deployctl.vllm.acceptance import sequential
from deployctl.vllm.acceptance.judgement import Gate, judge
from deployctl.vllm.counters.counts import Counts, mean_acceptance_length, pooled

RECORDED = Path(__file__).parents[1] / "tests" / "cases" / "acceptance" / "recorded.json"
LIMIT = 64
FLOORS = (0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5)
"""Floors, as multiples of the true mean acceptance length."""


def populations() -> dict[str, list[Counts]]:
    """Recorded requests by name."""
    document = json.loads(RECORDED.read_text("utf-8"))
    named = {**document["full"], "stale": document["stale"]["code"]}
    return {
        name: [Counts(row[0], row[1], row[2], tuple(row[3])) for row in rows]
        for name, rows in named.items()
    }


def decide(population: list[Counts], floor: float, seed: int) -> tuple[str, int]:
    """One measurement: its verdict, and the prompts it took."""
    drawn = random.Random(seed).choices(population, k=LIMIT)
    for look in sequential.looks(LIMIT):
        seen = drawn[:look]
        confidence = sequential.confidence_at(look, LIMIT, 0.95)
        verdict = judge(pooled(seen), seen, Gate(min_length=floor), seed, confidence).verdict
        if sequential.decided(verdict):
            break
    return verdict, look


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    print(f"fixed size: {LIMIT} prompts; {repeats} measurements a line")
    print(f"{'requests':<14}{'floor':>7}{'of true':>9}{'prompts':>9}{'share':>7}  verdicts")
    for name, population in populations().items():
        true = mean_acceptance_length(pooled(population)) or 1.0
        for times in FLOORS:
            floor = max(1.0, times * true)
            runs = [decide(population, floor, seed) for seed in range(repeats)]
            taken = sum(count for _, count in runs) / repeats
            said = ", ".join(f"{v} {n}" for v, n in Counter(v for v, _ in runs).most_common())
            share = taken / LIMIT
            print(f"{name:<14}{floor:>7.2f}{times:>9.2f}{taken:>9.1f}{share:>7.0%}  {said}")


if __name__ == "__main__":
    main()
