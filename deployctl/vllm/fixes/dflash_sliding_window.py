"""DFlash drafters mix sliding-window and full attention; early vLLM ran every layer as full.

The window that each of five layers (four sliding, one full) gets is computed by the tree's own
code, for the V1 and the V2 model runner.
"""

from __future__ import annotations

import ast
import re
from types import SimpleNamespace
from typing import Any, Iterator, List, Optional, Tuple, Union

from deployctl.vllm.fixes.interface import (
    ABSENT,
    PRESENT,
    REJECTED,
    UNKNOWN,
    UNSUPPORTED,
    V2_ONLY,
    Finding,
    Fix,
)
from deployctl.vllm.fixes.running import CannotRun, call, evaluate
from deployctl.vllm.fixes.tree import (
    Function,
    Module,
    Tree,
    call_name,
    keyword,
    mentions,
    strings,
    supports_dflash,
)

WINDOW = 2048
LAYERS = ["sliding_attention"] * 4 + ["full_attention"]
WANTED = [WINDOW] * 4 + [None]
_KEYWORD = "per_layer_sliding_window"
_ATTENTION = re.compile(r"DFlash\w*Attention")


def probe(tree: Tree) -> List[Finding]:
    """From the attention class of the Qwen3 drafter, wherever it is."""
    if supports_dflash(tree) is False:
        return [Finding(UNSUPPORTED, None, None, "no speculative method dflash")]
    found = list(_classes(tree))
    if not found:
        return [Finding(UNKNOWN, None, None, "no class DFlash…Attention")]
    return [_judge(tree, module, node) for module, node in found]


def _classes(tree: Tree) -> Iterator[Tuple[Module, ast.ClassDef]]:
    every = [
        (module, node)
        for module in tree.with_text("DFlash")
        for node in module.classes()
        if _ATTENTION.fullmatch(node.name)
    ]
    qwen = [(module, node) for module, node in every if "Qwen3" in node.name]
    # Further families of drafters came later and have classes of their own.
    yield from qwen or every


def _judge(tree: Tree, module: Module, node: ast.ClassDef) -> Finding:
    place = (module.path, node.lineno)
    calls = [c for c in ast.walk(node) if isinstance(c, ast.Call) and _is_attention(c)]
    if not any(keyword(c, _KEYWORD) is not None for c in calls):
        plain = bool(calls) and all(c.keywords and all(k.arg for k in c.keywords) for c in calls)
        what = f"{node.name} calls its attention without {_KEYWORD}"
        if plain and not mentions(module.tree, "layer_types"):
            return Finding(ABSENT, *place, f"{what}; layer_types is not read")
        return Finding(UNKNOWN, *place, what)
    second, first = _windows(tree, module, node, True), _windows(tree, module, node, False)
    what = f"windows of 4 sliding + 1 full layer: V2 runner {second}, V1 runner {first}"
    if second == WANTED and first == WANTED:
        return Finding(PRESENT, *place, what)
    if second == WANTED and first == "NotImplementedError":
        return Finding(V2_ONLY, *place, what)
    if second == first == "NotImplementedError":
        return Finding(REJECTED, *place, what)
    return Finding(UNKNOWN, *place, what)


def _is_attention(node: ast.Call) -> bool:
    return call_name(node).endswith("Attention") and keyword(node, "num_kv_heads") is not None


def _windows(
    tree: Tree, module: Module, node: ast.ClassDef, second: bool
) -> Union[List[Any], str, None]:
    """The window of every layer, or the name of what was raised; None where it cannot be run."""
    try:
        site = _site(module, node)
        if site is not None:
            return [_at_site(tree, module, site, index, second) for index in range(len(LAYERS))]
        resolver = _resolver(module)
        if resolver is None:
            return None
        given = _given(second)
        values = [call(tree, module, resolver, given, _config(), i) for i in range(len(LAYERS))]
        return [value[0] if isinstance(value, tuple) else value for value in values]
    except NotImplementedError:
        return "NotImplementedError"
    except (CannotRun, Exception) as error:
        return repr(error)


def _site(module: Module, node: ast.ClassDef) -> Optional[Tuple[Function, ast.expr]]:
    """Where a layer makes its attention, and the expression of the window it hands over."""
    for function in module.functions():
        for part in ast.walk(function):
            if isinstance(part, ast.Call) and call_name(part) == node.name:
                for name in ("sliding_window", _KEYWORD):
                    value = keyword(part, name)
                    if value is not None:
                        return function, value
    return None


def _at_site(
    tree: Tree, module: Module, site: Tuple[Function, ast.expr], index: int, second: bool
) -> Any:
    function, expression = site
    config = _config()
    given = dict(_given(second), config=config, layer_idx=index)
    given["vllm_config"] = given["get_current_vllm_config"]()
    values = evaluate(tree, module, function, expression, given).values
    if any(value != values[0] for value in values):
        raise CannotRun(f"the window can be any of {values}")
    return values[0]


def _resolver(module: Module) -> Optional[Function]:
    for function in module.functions():
        if len(function.args.args) == 2 and {"layer_types", "sliding_window"} <= strings(function):
            return function
    return None


def _config() -> SimpleNamespace:
    return SimpleNamespace(
        model_type="qwen3",
        num_hidden_layers=len(LAYERS),
        layer_types=list(LAYERS),
        use_sliding_window=True,
        sliding_window=WINDOW,
        max_window_layers=len(LAYERS),
        is_causal=None,
        dflash_config={"mask_token_id": 248070, "target_layer_ids": [1, 16, 31, 46, 61]},
    )


def _given(second: bool) -> Any:
    draft = SimpleNamespace(hf_config=_config())
    speculative = SimpleNamespace(method="dflash", draft_model_config=draft)
    current = SimpleNamespace(use_v2_model_runner=second, speculative_config=speculative)
    return {"get_current_vllm_config": lambda: current, "logger": _Silent()}


class _Silent:
    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


FIX = Fix(
    name="dflash-sliding-window",
    title="Mixed sliding-window and full attention of a DFlash drafter is run as full attention",
    pull_request="https://github.com/vllm-project/vllm/pull/40898",
    fixed_in="0.26.0, on the V2 model runner only",
    shows="acceptance at later positions falls to zero once the context passes the window",
    probe=probe,
    needle="DFlash",
)
