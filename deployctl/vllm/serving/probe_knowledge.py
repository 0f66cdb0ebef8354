"""Reads from an installed vLLM's source what it knows. Runs on the host, standard library alone.

Nothing of vLLM is imported or run: the files are parsed. A list that cannot be read is None, which
means unknown, never empty.
"""

from __future__ import annotations

import ast
import glob
import os
from typing import Any, Dict, List, Optional


def know(environment: str) -> Dict[str, Any]:
    """The speculative config's keys and methods, and the architectures of a built vLLM."""
    found = glob.glob(os.path.join(environment, "lib", "python3*", "site-packages", "vllm"))
    package = found[0] if found else ""
    return {
        "package": package or None,
        "speculative_keys": _fields(
            os.path.join(package, "config", "speculative.py"), "SpeculativeConfig"
        ),
        "architectures": _architectures(
            os.path.join(package, "model_executor", "models", "registry.py")
        ),
    }


def _tree(path: str) -> Optional[ast.Module]:
    try:
        with open(path, encoding="utf-8") as file:
            return ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return None


def _fields(path: str, name: str) -> Optional[List[str]]:
    """The annotated fields of a class."""
    tree = _tree(path)
    for node in tree.body if tree else ():
        if isinstance(node, ast.ClassDef) and node.name == name:
            return [
                item.target.id
                for item in node.body
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            ]
    return None


def _architectures(path: str) -> Optional[List[str]]:
    """The keys of every dictionary named …_MODELS, previously supported ones left out."""
    tree = _tree(path)
    names: List[str] = []
    for node in tree.body if tree else ():
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Dict):
            continue
        target = node.targets[0]
        if not isinstance(target, ast.Name) or not target.id.endswith("_MODELS"):
            continue
        if "PREVIOUSLY" not in target.id:
            names += [
                key.value
                for key in node.value.keys
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            ]
    return sorted(set(names)) or None
