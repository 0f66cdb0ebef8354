"""Report documents as runs make them: one that passed, one that failed as in the story."""

from __future__ import annotations

import copy
from typing import Any

RATES = [0.996, 0.989, 0.987, 0.985, 0.981, 0.970, 0.966]
STALE_RATES = [0.110, 0.026, 0.010, 0.002, 0.001, 0.0, 0.0]


def _acceptance() -> dict[str, Any]:
    return {
        "source": "metrics",
        "drafts": 410,
        "draft_tokens": 2870,
        "accepted_tokens": 2829,
        "mean_acceptance_length": 7.9,
        "acceptance_rate": 0.9857,
        "per_position": RATES,
        "conditional": [0.996, 0.993, 0.998, 0.998, 0.996, 0.989, 0.996],
        "interval": {"low": 7.81, "high": 7.95, "confidence": 0.95, "samples": 12},
        "verdict": "pass",
        "reasons": ["mean acceptance length 7.9 (7.81 to 7.95) is above the floor of 6"],
        "gate": {"floor": 6.0, "min_length": 6.0, "min_drafts": 50},
        "requests": 12,
        "samples": 12,
        "other_traffic": {"tokens": 0, "requests": 0, "left_out": 0},
        "server": {"version": "0.32.0", "model": "tiny"},
        "references": [
            {"mean_acceptance_length": 7.79, "source": "the tiny pair's card"},
            {"mean_acceptance_length": 3.82, "source": "vLLM PR #40727, MT-Bench"},
        ],
        "last_good": {
            "release": "8b1d0c5a7f21",
            "mean_acceptance_length": 7.84,
            "per_position": [0.99, 0.985, 0.98, 0.975, 0.97, 0.965, 0.96],
        },
    }


def passed() -> dict[str, Any]:
    """`up` of the demo: everything new, everything proven."""
    return {
        "schema": "deployctl.report/1",
        "run": "20261130T041511Z-d55a3a",
        "profile": "demo",
        "playbook": "up",
        "outcome": "deployed",
        "exit_code": 0,
        "started": "2026-11-30T04:15:11Z",
        "seconds": 93.2,
        "hosts": [
            {
                "host": "local",
                "release": "3f5be4e74275",
                "previous": "8b1d0c5a7f21",
                "changed": True,
                "restored": False,
                "without_service": 41.3,
                "gaps": [41.3],
                "round_trips": 31,
                "error": None,
                "way_back_error": None,
                "took_up": None,
                "steps": [
                    _step("preflight", "passed", 0.4),
                    _step(
                        "build",
                        "changed",
                        38.2,
                        {
                            "strategy": "release",
                            "commit_requested": None,
                            "version_installed": "0.32.0+cpu",
                        },
                    ),
                    _step(
                        "verify",
                        "passed",
                        2.1,
                        {
                            "fixes": [
                                {"fix": "dflash-layer-offset", "verdict": "present"},
                                {"fix": "dflash-sliding-window", "verdict": "v2-only"},
                            ]
                        },
                    ),
                    _step(
                        "drafter",
                        "changed",
                        0.1,
                        {
                            "sha256": "0" * 64,
                            "changed": [
                                {"key": "dflash_config.mask_token_id", "old": 0, "new": 3},
                                {
                                    "key": "dflash_config.target_layer_ids",
                                    "old": [0, 2, 4],
                                    "new": [1, 3, 5],
                                },
                            ],
                        },
                    ),
                    _step("launch", "changed", 1.2),
                    _step("ready", "passed", 41.0, {"pid": 4711}),
                    _step("smoke", "passed", 1.4, _smoke()),
                    _step("acceptance", "passed", 8.8, _acceptance()),
                    _step("lossless", "passed", 50.1, _lossless()),
                    _step("bench", "passed", 20.4, _bench()),
                ],
            }
        ],
    }


def failed() -> dict[str, Any]:
    """The story: the stale config stays, acceptance fails and names the wrong keys."""
    document = copy.deepcopy(passed())
    document |= {"outcome": "failed", "exit_code": 9, "run": "20261130T050000Z-c0ffee"}
    host = document["hosts"][0]
    why = (
        "the drafter's config.json on the host is not what the profile wants: "
        "dflash_config.mask_token_id is 0, wanted 3"
    )
    host["error"] = {
        "what": "local: acceptance: mean acceptance length 1.15 is below the floor of 6",
        "why": why,
        "next": "write the wanted config: deployctl up --profile demo",
    }
    host["steps"] = [step for step in host["steps"] if step["step"] not in ("lossless", "bench")]
    step = host["steps"][-1]
    step["status"] = "failed"
    step["evidence"] |= {
        "mean_acceptance_length": 1.15,
        "acceptance_rate": 0.021,
        "per_position": STALE_RATES,
        "interval": {"low": 1.12, "high": 1.18, "confidence": 0.95, "samples": 12},
        "verdict": "fail",
        "reasons": ["mean acceptance length 1.15 (1.12 to 1.18) is below the floor of 6"],
        "config_differences": [
            {"key": "dflash_config.mask_token_id", "actual": 0, "wanted": 3},
        ],
        "diagnosis": [
            {
                "signature": "low from the first position",
                "cause": "wrong mask_token_id",
                "result": "confirmed",
                "reason": "dflash_config.mask_token_id is 0, wanted 3",
            }
        ],
    }
    return document


def refused() -> dict[str, Any]:
    """A host that could not be reached: no step ran."""
    document = copy.deepcopy(passed())
    document |= {"outcome": "failed", "exit_code": 4, "run": "20261130T060000Z-0dd0dd"}
    document["hosts"][0] |= {
        "release": None,
        "previous": None,
        "without_service": None,
        "steps": [],
        "error": {
            "what": 'gpu-box: no route & <no> "name"',
            "why": "",
            "next": "look whether the host is up",
        },
    }
    return document


def _smoke() -> dict[str, Any]:
    return {
        "verdict": "pass",
        "checks": [
            {
                "name": "quicksort",
                "request": {"model": "tiny"},
                "result": {
                    "verdict": "pass",
                    "problems": [],
                    "notes": ["max_tokens is 983 instead of 4000"],
                    "tokens_per_second": 695.1,
                    "content": "```python\nif a < b and c > d:\n    pass\n```",
                },
            }
        ],
    }


def _lossless() -> dict[str, Any]:
    return {
        "verdict": "pass",
        "compared": 8,
        "identical": 8,
        "tokens": 2113,
        "first_difference": None,
        "differences": [],
        "failures": [],
        "caveat": "rounding",
    }


def _bench() -> dict[str, Any]:
    seconds = {"p50": 0.07, "p95": 0.1, "max": 0.11}
    level = {
        "concurrency": 1,
        "requests": 8,
        "failed": 0,
        "failures": [],
        "seconds": 3.2,
        "tokens": 2048,
        "tokens_per_second": 640.0,
        "first_token": seconds,
        "per_output_token": {"p50": 0.0013, "p95": 0.002, "max": 0.002},
        "mean_acceptance_length": 7.9,
        "acceptance_rate": 0.98,
    }
    plain = level | {"tokens_per_second": 237.0, "mean_acceptance_length": None}
    return {
        "model": "tiny",
        "max_tokens": 512,
        "levels": [level],
        "plain": [plain],
        "speed_up": [{"concurrency": 1, "speed_up": 2.7}],
    }


def _step(
    name: str, status: str, seconds: float, evidence: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"step": name, "status": status, "seconds": seconds, "evidence": evidence or {}}
