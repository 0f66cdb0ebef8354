"""The scheduler drops the last prefix-cache block for EAGLE-like drafters; DFlash needs it kept.

An EAGLE drafter's cache at a position depends on the next token, a DFlash drafter's does not. What
reaches `KVCacheManager(use_eagle=…)` is computed by the tree's own code, for dflash and eagle3.
"""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any, Iterator, List, Optional, Tuple

from deployctl.vllm.fixes.interface import ABSENT, PRESENT, UNKNOWN, UNSUPPORTED, Finding, Fix
from deployctl.vllm.fixes.running import Instance, Value, evaluate
from deployctl.vllm.fixes.tree import Function, Module, Tree, call_name, keyword, supports_dflash

DRAFT_TOKENS = 15
OPT_IN = "disable_eagle_block_drop"


def probe(tree: Tree) -> List[Finding]:
    """present where dflash keeps the block and eagle3 drops it; absent where dflash drops it."""
    supported = supports_dflash(tree)
    if supported is False:
        return [Finding(UNSUPPORTED, None, None, "no speculative method dflash")]
    sites = list(_sites(tree))
    if not sites:
        return [Finding(UNKNOWN, None, None, "no call KVCacheManager(use_eagle=…)")]
    return [_judge(tree, *site) for site in sites]


def _sites(tree: Tree) -> Iterator[Tuple[Module, Function, ast.expr]]:
    for module in tree.with_text("KVCacheManager("):
        for function in module.functions():
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and call_name(node) == "KVCacheManager":
                    value = keyword(node, "use_eagle")
                    if value is not None:
                        yield module, function, value


def _judge(tree: Tree, module: Module, function: Function, expression: ast.expr) -> Finding:
    place = (module.path, expression.lineno)
    passed = f"KVCacheManager(use_eagle={ast.unparse(expression)})"
    try:
        dflash = drops(tree, module, function, expression, "dflash")
        eagle = drops(tree, module, function, expression, "eagle3")
    except Exception as error:
        return Finding(UNKNOWN, *place, f"{passed} could not be computed: {error!r}")
    what = f"{passed} is {dflash.values} for dflash, {eagle.values} for eagle3"
    if not eagle.possibly(True):
        return Finding(UNKNOWN, *place, what)
    if dflash.surely(False):
        return Finding(PRESENT, *place, what)
    if not dflash.surely(True):
        return Finding(UNKNOWN, *place, what)
    if _opt_in(tree, module, function, expression):
        what += f'; kept with the opt-in "{OPT_IN}": true'
    return Finding(ABSENT, *place, what)


def drops(
    tree: Tree,
    module: Module,
    function: Function,
    expression: ast.expr,
    method: str,
    **settings: Any,
) -> Value:
    """Whether the block is dropped for a speculative method, as booleans."""
    given = scheduler_names(tree, method, **settings)
    value = evaluate(tree, module, function, expression, given)
    return Value([bool(one) for one in value.values])


def scheduler_names(tree: Tree, method: str, **settings: Any) -> Any:
    """What the scheduler's constructor is given, for one speculative method."""
    speculative = instance(
        tree,
        "SpeculativeConfig",
        method=method,
        num_speculative_tokens=DRAFT_TOKENS,
        draft_model_config=None,
        **settings,
    )
    config = instance(
        tree,
        "VllmConfig",
        speculative_config=speculative,
        num_speculative_tokens=DRAFT_TOKENS,
    )
    return {"self": SimpleNamespace(vllm_config=config), "vllm_config": config}


def instance(tree: Tree, name: str, **attributes: Any) -> Any:
    """An object of a class of the tree, with these attributes; raises where there is no such
    class, or more than one."""
    found = tree.class_named(name)
    if found is None:
        raise LookupError(f"class {name} is not defined exactly once")
    return Instance(tree, *found, attributes)


def _opt_in(tree: Tree, module: Module, function: Function, expression: ast.expr) -> Optional[bool]:
    if not any(True for _ in tree.with_text(OPT_IN)):
        return None
    try:
        value = drops(tree, module, function, expression, "dflash", **{OPT_IN: True})
    except Exception:
        return None
    return value.surely(False)


FIX = Fix(
    name="dflash-cache-drop",
    title="The last prefix-cache block is dropped for DFlash as if it were EAGLE",
    pull_request="https://github.com/vllm-project/vllm/pull/40898",
    fixed_in='0.33.0; from 0.30.0 by "disable_eagle_block_drop": true',
    shows="prefix-cache hits stay low or at 0: time to first token, not acceptance",
    probe=probe,
    needle="KVCacheManager(",
)
