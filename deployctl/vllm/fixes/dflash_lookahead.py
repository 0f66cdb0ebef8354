"""A DFlash drafter writes one slot more than it has draft tokens, from the first prefill on.

Without that slot its first pass writes into prefix-cache blocks that other requests share. How
many slots the scheduler reserves is computed by the tree's own code, for a new request.
"""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Iterator, List, Tuple

from deployctl.vllm.fixes.dflash_cache_drop import DRAFT_TOKENS, scheduler_names
from deployctl.vllm.fixes.interface import ABSENT, PRESENT, UNKNOWN, UNSUPPORTED, Finding, Fix
from deployctl.vllm.fixes.running import evaluate
from deployctl.vllm.fixes.tree import Function, Module, Tree, call_name, keyword, supports_dflash

_NAME = "num_lookahead_tokens"


def probe(tree: Tree) -> List[Finding]:
    """present where every reservation is draft tokens + 1, also for a request without history."""
    if supports_dflash(tree) is False:
        return [Finding(UNSUPPORTED, None, None, "no speculative method dflash")]
    findings = []
    for module, function, expression in _sites(tree):
        findings.append(_judge(tree, module, function, expression))
    return findings or [Finding(UNKNOWN, None, None, f"no call allocate_slots({_NAME}=…)")]


def _sites(tree: Tree) -> Iterator[Tuple[Module, Function, ast.expr]]:
    for module in tree.with_text("allocate_slots("):
        if "/core/sched/" not in module.path and "scheduler" not in module.path:
            continue
        for function in module.functions():
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and call_name(node) == "allocate_slots":
                    value = keyword(node, _NAME)
                    if value is not None:
                        yield module, function, value


def _judge(tree: Tree, module: Module, function: Function, expression: ast.expr) -> Finding:
    place = (module.path, expression.lineno)
    passed = f"allocate_slots({_NAME}={ast.unparse(expression)})"
    try:
        reserved = _constructed(tree, module)
        given = {
            "self": SimpleNamespace(**{_NAME: reserved, "use_eagle": True}),
            "request": SimpleNamespace(num_computed_tokens=0),
            "load_kv_async": False,
        }
        values = evaluate(tree, module, function, expression, given).values
    except Exception as error:
        return Finding(UNKNOWN, *place, f"{passed} could not be computed: {error!r}")
    what = f"{passed} is {values} for a new request with {DRAFT_TOKENS} draft tokens"
    if all(value == DRAFT_TOKENS + 1 for value in values):
        return Finding(PRESENT, *place, what)
    if all(isinstance(value, int) and value <= DRAFT_TOKENS for value in values):
        return Finding(ABSENT, *place, what)
    return Finding(UNKNOWN, *place, what)


def _constructed(tree: Tree, module: Module) -> int:
    """What the scheduler's constructor leaves in `self.num_lookahead_tokens`."""
    given = scheduler_names(tree, "dflash")
    for function in module.functions():
        if function.name != "__init__" or _NAME not in ast.unparse(function):
            continue
        last = ast.parse(f"self.{_NAME}", mode="eval").body
        values = evaluate(tree, module, function, last, given, function.end_lineno).values
        if len(set(values)) == 1 and isinstance(values[0], int):
            return values[0]
        raise LookupError(f"{_NAME} can be any of {values}")
    raise LookupError(f"no constructor sets {_NAME}")


FIX = Fix(
    name="dflash-lookahead",
    title="DFlash corrupts shared prefix-cache blocks: a lookahead slot is missing",
    pull_request="https://github.com/vllm-project/vllm/pull/42971",
    fixed_in="0.23.0",
    shows="acceptance sinks steadily under concurrency with prefix caching",
    probe=probe,
    needle="allocate_slots(",
)
