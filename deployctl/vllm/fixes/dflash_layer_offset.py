"""DFlash counts a target layer by its output, vLLM's auxiliary layers by their input: off by one.

Every function that turns a drafter's `target_layer_ids` into auxiliary layers is run alone, with
the ids of a published drafter; there is one in each model runner and all must agree.
"""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any, Iterator, List, Tuple

from deployctl.vllm.fixes.interface import ABSENT, PRESENT, UNKNOWN, UNSUPPORTED, Finding, Fix
from deployctl.vllm.fixes.running import arguments, call
from deployctl.vllm.fixes.tree import Function, Module, Tree, strings, supports_dflash

IDS = [1, 16, 31, 46, 61]
"""target_layer_ids of z-lab/Qwen3.6-27B-DFlash."""
_READS = {"eagle_aux_hidden_state_layer_ids", "dflash_config", "target_layer_ids"}


def probe(tree: Tree) -> List[Finding]:
    """present where every resolver gives the ids plus one, absent where it gives them as they are
    and nothing else in the tree adds one."""
    if supports_dflash(tree) is False:
        return [Finding(UNSUPPORTED, None, None, "no speculative method dflash")]
    findings = [_run(tree, module, function) for module, function in resolvers(tree)]
    if not findings:
        return [Finding(UNKNOWN, None, None, "no function reads target_layer_ids as layers")]
    if any(finding.verdict == ABSENT for finding in findings):
        findings += _elsewhere(tree)
    return findings


def resolvers(tree: Tree) -> Iterator[Tuple[Module, Function]]:
    """Innermost functions of one argument that read all three names."""
    for module in tree.with_text("target_layer_ids"):
        for function in module.functions():
            inner = [n for n in ast.walk(function) if n is not function]
            nested = any(isinstance(n, ast.FunctionDef) and strings(n) >= _READS for n in inner)
            if strings(function) >= _READS and not nested and len(arguments(function)) == 1:
                yield module, function


def _run(tree: Tree, module: Module, function: Function) -> Finding:
    config = SimpleNamespace(
        model_type="qwen3",
        dflash_config={"mask_token_id": 248070, "target_layer_ids": list(IDS)},
    )
    draft = SimpleNamespace(hf_config=config)
    speculative = SimpleNamespace(method="dflash", draft_model_config=draft)
    by_name = {"self": SimpleNamespace(speculative_config=speculative), "hf_config": config}
    by_name["config"] = config
    argument: Any = by_name.get(arguments(function)[0], speculative)
    place = (module.path, function.lineno)
    try:
        result = call(tree, module, function, {"logger": _Silent()}, argument)
        found = list(result) if result is not None else None
    except Exception as error:
        return Finding(UNKNOWN, *place, f"{function.name} could not be run alone: {error!r}")
    what = f"{function.name} of {IDS} gives {found}"
    if found == [i + 1 for i in IDS]:
        return Finding(PRESENT, *place, what)
    return Finding(ABSENT if found == IDS else UNKNOWN, *place, what)


def _elsewhere(tree: Tree) -> List[Finding]:
    """Code apart from the resolvers that may add the one: then nothing is known."""
    known = {(module.path, function.lineno) for module, function in resolvers(tree)}
    found = []
    for module in tree.with_text("dflash"):
        for function in module.functions():
            inner = any(isinstance(n, ast.FunctionDef) for n in ast.walk(function) if n != function)
            if inner or (module.path, function.lineno) in known or not _shifts(function):
                continue
            what = f"{function.name} adds one to layer ids too"
            found.append(Finding(UNKNOWN, module.path, function.lineno, what))
    return found


def _shifts(function: Function) -> bool:
    """A loop over layer ids, or aux layers, that adds one to each."""
    for node in ast.walk(function):
        if not isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            continue
        text = ast.unparse(node)
        adds = isinstance(node.elt, ast.BinOp) and isinstance(node.elt.op, ast.Add)
        if adds and ("layer_id" in text or "aux" in text):
            return True
    return False


class _Silent:
    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


FIX = Fix(
    name="dflash-layer-offset",
    title="DFlash reads the hidden states of the layer before the one it was trained on",
    pull_request="https://github.com/vllm-project/vllm/pull/40727",
    fixed_in="0.22.0",
    shows="mean acceptance length a few per cent low; acceptance alone cannot show it",
    probe=probe,
    needle="target_layer_ids",
)
