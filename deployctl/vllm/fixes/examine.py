"""Asks one tree for every known fix. Runs in a child process: it executes code of the tree."""

from __future__ import annotations

import resource
from typing import Any, Dict, List, Optional

from deployctl.vllm.fixes import (
    dflash_cache_drop,
    dflash_layer_offset,
    dflash_lm_head,
    dflash_lookahead,
    dflash_sliding_window,
)
from deployctl.vllm.fixes.interface import UNKNOWN, Finding, Fix, as_data
from deployctl.vllm.fixes.tree import Tree

SCHEMA = "deployctl.fixes/1"
FIXES = (
    dflash_layer_offset.FIX,
    dflash_sliding_window.FIX,
    dflash_cache_drop.FIX,
    dflash_lookahead.FIX,
    dflash_lm_head.FIX,
)
MEMORY = 2 << 30
SECONDS = 60


def examine(tree: str, names: Optional[List[str]] = None) -> Dict[str, Any]:
    """The verdict and evidence of every fix (or of those named) for the vLLM in a folder."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    source = Tree(tree)
    if not source.exists():
        return {"schema": SCHEMA, "tree": tree, "version": None, "fixes": [], "problem": "no vllm"}
    wanted = [fix for fix in FIXES if names is None or fix.name in names]
    return {
        "schema": SCHEMA,
        "tree": tree,
        "version": source.version(),
        "fixes": [_one(fix, source) for fix in wanted],
    }


def _one(fix: Fix, tree: Tree) -> Dict[str, Any]:
    try:
        findings = fix.probe(tree)
        findings += [
            Finding(UNKNOWN, path, None, "this Python cannot parse it")
            for path in tree.unparsable(fix.needle)
        ]
    except (Exception, SystemExit) as error:
        findings = [Finding(UNKNOWN, None, None, f"the probe failed: {error!r}")]
    return as_data(fix, findings)
