"""Multimodal targets keep their lm_head in the language model; the V2 runner looked beside it.

The drafter then drafts with a head of its own that was never loaded. The expression by which the
V2 runner finds the target's head is run with a target that has it in its language model only.
"""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any, Iterator, List, Tuple

from deployctl.vllm.fixes.interface import ABSENT, PRESENT, UNKNOWN, UNSUPPORTED, Finding, Fix
from deployctl.vllm.fixes.running import evaluate
from deployctl.vllm.fixes.tree import Function, Module, Tree, supports_dflash

_HEAD = "target_lm_head"


def probe(tree: Tree) -> List[Finding]:
    """present where the head of the language model is found."""
    supported = supports_dflash(tree)
    if supported is False:
        return [Finding(UNSUPPORTED, None, None, "no speculative method dflash")]
    findings = [_judge(tree, *site) for site in _sites(tree)]
    if findings:
        return findings
    if supported and not any("/spec_decode/dflash/" in m.path for m in tree.with_text("dflash")):
        return [Finding(UNSUPPORTED, None, None, "the V2 model runner has no DFlash")]
    return [Finding(UNKNOWN, None, None, f"nothing assigns {_HEAD} for DFlash")]


def _sites(tree: Tree) -> Iterator[Tuple[Module, Function, ast.expr]]:
    for module in tree.with_text(_HEAD):
        if "dflash" not in module.path:
            continue
        for function in module.functions():
            for node in ast.walk(function):
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == _HEAD:
                    yield module, function, node.value


def _judge(tree: Tree, module: Module, function: Function, expression: ast.expr) -> Finding:
    place = (module.path, expression.lineno)
    head = object()
    language = SimpleNamespace(lm_head=head, model=SimpleNamespace())
    target = SimpleNamespace(get_language_model=lambda: language, language_model=language)
    given: Any = {"target_model": target, "target_language_model": language}
    try:
        values = evaluate(tree, module, function, expression, given).values
    except Exception as error:
        return Finding(UNKNOWN, *place, f"{ast.unparse(expression)} could not be run: {error!r}")
    what = f"{ast.unparse(expression)} of a multimodal target gives "
    if all(value is head for value in values):
        return Finding(PRESENT, *place, what + "its language model's head")
    if all(value is None for value in values):
        return Finding(ABSENT, *place, what + "None")
    return Finding(UNKNOWN, *place, what + repr(values))


FIX = Fix(
    name="dflash-lm-head",
    title="The V2 model runner does not share a multimodal target's lm_head with the drafter",
    pull_request="https://github.com/vllm-project/vllm/pull/47914",
    fixed_in="0.26.0",
    shows="acceptance of about 0 with a …ForConditionalGeneration target on the V2 runner",
    probe=probe,
    needle="target_lm_head",
)
