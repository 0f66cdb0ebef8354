"""deployctl's bench beside vLLM's own `vllm bench serve`: the same prompts, the same server.

    python bench/serving_speed.py --url URL --model NAME --tokenizer DIR --environment ENV

`ENV` is the environment that was built; what its bench wants beside it (pandas, datasets) is put
into a folder of its own. Each program measures in turn, ROUNDS times at every level, so that what
else the machine does meets both. They agree where their means differ by no more than twice the
error of that difference, or by AGREE of the value; acceptance, which is no matter of time, by 2 %.
The last line is JSON; the status is 0 where all agree.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from uv import find_uv_bin

from deployctl.vllm.client import load, prompt_sets
from deployctl.vllm.client.client import Client
from deployctl.vllm.client.prompt_sets import Prompt

BESIDE = ["pandas", "datasets", "pyarrow", "multiprocess", "xxhash", "fsspec"]
BESIDE += ("python-dateutil", "six", "pytz", "tzdata")
ROUNDS = 3
AGREE = 0.1
SAME_DRAFTS = 0.02
TIMEOUT = 300.0
CALL = """
import sys
sys.path.append(sys.argv.pop(1))
from vllm.entrypoints.cli.main import main
sys.argv[0] = "vllm"
main()
"""
FIGURES = {
    "tokens_per_second": "output_throughput",
    "first_token": "median_ttft_ms",
    "per_output_token": "median_tpot_ms",
    "mean_acceptance_length": "spec_decode_acceptance_length",
}
"""Ours by the name that vLLM's bench has for it; it gives times in milliseconds."""


def ours(url: str, model: str, asked: Sequence[Prompt], tokens: int, level: int) -> dict[str, Any]:
    """One level by deployctl."""
    plan = load.Load(model, tuple(asked), (level,), len(asked), tokens, TIMEOUT)
    with Client(url) as client:
        found = load.run(client, plan, lambda concurrency, requests: None).levels[0]
    if found["failed"]:
        raise SystemExit(f"requests failed: {found['failures']}")
    return {
        "tokens": found["tokens"],
        "tokens_per_second": found["tokens_per_second"],
        "first_token": found["first_token"]["p50"],
        "per_output_token": found["per_output_token"]["p50"],
        "mean_acceptance_length": found["mean_acceptance_length"],
    }


def vllms(
    arguments: argparse.Namespace, beside: Path, asked: Sequence[Prompt], level: int
) -> dict[str, Any]:
    """One level by vLLM's bench."""
    with tempfile.TemporaryDirectory() as folder:
        prompts = Path(folder) / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": one.text}) + "\n" for one in asked))
        command = [
            *(f"{arguments.environment}/bin/python", "-c", CALL, str(beside)),
            *("bench", "serve", "--backend", "openai-chat", "--endpoint", "/v1/chat/completions"),
            *("--base-url", arguments.url, "--model", arguments.tokenizer),
            *("--served-model-name", arguments.model, "--tokenizer", arguments.tokenizer),
            *("--dataset-name", "custom", "--dataset-path", str(prompts)),
            *("--custom-output-len", str(arguments.max_tokens), "--num-prompts", str(len(asked))),
            *("--max-concurrency", str(level), "--temperature", "0", "--disable-shuffle"),
            *("--skip-chat-template", "--disable-tqdm", "--num-warmups", str(level)),
            *("--save-result", "--result-dir", folder, "--result-filename", "result.json"),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(
                f"vllm bench serve failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
            )
        result = json.loads((Path(folder) / "result.json").read_text())
    found = {name: result.get(theirs) for name, theirs in FIGURES.items()}
    for name, theirs in FIGURES.items():
        if theirs.endswith("_ms"):
            found[name] = result[theirs] / 1000
    return {"tokens": result["total_output_tokens"], **found}


def agree(name: str, one: Sequence[float], other: Sequence[float], share: float) -> bool:
    """Whether two programs' rounds give the same figure within their noise, or `share` of it."""
    gap = abs(mean(one) - mean(other))
    if name == "mean_acceptance_length":
        return gap <= SAME_DRAFTS * mean(one)
    error = ((stdev(one) ** 2 + stdev(other) ** 2) / len(one)) ** 0.5 if len(one) > 1 else 0.0
    return gap <= max(2 * error, share * mean(one))


def compared(
    rounds: Sequence[tuple[dict[str, Any], dict[str, Any]]], share: float
) -> dict[str, Any]:
    """Each figure of both programs, round by round, and whether they agree."""
    found: dict[str, Any] = {}
    for name in FIGURES:
        pairs = [(a[name], b[name]) for a, b in rounds]
        if any(value is None for pair in pairs for value in pair):
            continue
        one, other = [a for a, _ in pairs], [b for _, b in pairs]
        found[name] = {"ours": one, "vllms": other, "agree": agree(name, one, other, share)}
    return found


def main() -> int:
    """Measure, print, compare."""
    parser = argparse.ArgumentParser()
    for name in ("url", "model", "tokenizer", "environment"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--concurrency", default="1,4")
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--agree", type=float, default=AGREE, help="of a value, for times")
    arguments = parser.parse_args()
    asked = prompt_sets.load("code").prompts[: arguments.requests]
    levels: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        install = [find_uv_bin(), "pip", "install", "--quiet", "--no-deps", "--target", folder]
        python = f"{arguments.environment}/bin/python"
        subprocess.run([*install, "--python", python, *BESIDE], check=True)
        for level in (int(word) for word in arguments.concurrency.split(",")):
            rounds = [
                (
                    ours(arguments.url, arguments.model, asked, arguments.max_tokens, level),
                    vllms(arguments, Path(folder), asked, level),
                )
                for _ in range(arguments.rounds)
            ]
            levels[str(level)] = compared(rounds, arguments.agree)
            for name, figure in levels[str(level)].items():
                shown = [" ".join(f"{v:.4g}" for v in figure[who]) for who in ("ours", "vllms")]
                word = "agree" if figure["agree"] else "DIFFER"
                print(f"{level} at once  {name:<24} {shown[0]:<28} vllm {shown[1]:<28} {word}")
    print(json.dumps(levels))
    return 0 if all(f["agree"] for found in levels.values() for f in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
