"""Reads from an installed vLLM's source what it knows. Runs on the host, standard library alone.

Nothing of vLLM is imported or run: the files are parsed. A list that cannot be read is None, which
means unknown, never empty.
"""

from __future__ import annotations

import ast
import glob
import os
import re
from typing import Any, Dict, List, Optional

ASKED = "supports_non_causal"
"""The method by which an attention backend says that it can attend in both directions."""
_BASE = re.compile(r"^class (\w+)\((\w+)", re.MULTILINE)


def know(environment: str) -> Dict[str, Any]:
    """What a built vLLM is and knows: its version, the speculative config's keys and methods, the
    architectures, the options of `vllm serve`, and the attention backends that can attend in both
    directions."""
    found = glob.glob(os.path.join(environment, "lib", "python3*", "site-packages", "vllm"))
    package = found[0] if found else ""
    speculative = _tree(os.path.join(package, "config", "speculative.py"))
    return {
        "package": package or None,
        "version": _version(_tree(os.path.join(package, "_version.py"))),
        "speculative_keys": _fields(speculative, "SpeculativeConfig"),
        "methods": _methods(speculative),
        "architectures": _architectures(
            _tree(os.path.join(package, "model_executor", "models", "registry.py"))
        ),
        "options": _options(package),
        "non_causal": _non_causal(package),
    }


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return ""


def _parsed(text: str) -> Optional[ast.Module]:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _tree(path: str) -> Optional[ast.Module]:
    text = _read(path)
    return _parsed(text) if text else None


def _text(node: Optional[ast.AST]) -> Optional[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def _version(tree: Optional[ast.Module]) -> Optional[str]:
    """The version that the build wrote down; a file of setuptools-scm or vcs-versioning."""
    for node in tree.body if tree else ():
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if "__version__" in names:
                return _text(node.value)
    return None


def _fields(tree: Optional[ast.Module], name: str) -> Optional[List[str]]:
    """The annotated fields of a class."""
    for node in tree.body if tree else ():
        if isinstance(node, ast.ClassDef) and node.name == name:
            return [
                item.target.id
                for item in node.body
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            ]
    return None


def _methods(tree: Optional[ast.Module]) -> Optional[List[str]]:
    """The words of `SpeculativeMethod = Literal[…]`, those of the types that it names included."""
    types: Dict[str, ast.expr] = {}
    for node in tree.body if tree else ():
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Subscript):
            continue
        if getattr(node.value.value, "id", "") == "Literal":
            inside = node.value.slice
            types.update({getattr(target, "id", ""): inside for target in node.targets})
    words, names, seen = set(), ["SpeculativeMethod"], set()
    while names:
        name = names.pop()
        if name in types and name not in seen:
            seen.add(name)
            inner = list(ast.walk(types[name]))
            words |= {_text(part) for part in inner} - {None}
            names += [part.id for part in inner if isinstance(part, ast.Name)]
    return sorted(str(word) for word in words) or None


def _architectures(tree: Optional[ast.Module]) -> Optional[List[str]]:
    """The keys of every dictionary named …_MODELS, previously supported ones left out."""
    names: List[Optional[str]] = []
    for node in tree.body if tree else ():
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Dict):
            continue
        target = node.targets[0]
        if not isinstance(target, ast.Name) or not target.id.endswith("_MODELS"):
            continue
        if "PREVIOUSLY" not in target.id:
            names += [_text(key) for key in node.value.keys]
    return sorted({name for name in names if name is not None}) or None


def _options(package: str) -> Optional[List[str]]:
    """The options of `vllm serve`, without dashes in front: what is added by name, and the fields
    from which the front end's are made."""
    engine = _tree(os.path.join(package, "engine", "arg_utils.py"))
    front = os.path.join(package, "entrypoints", "**", "cli_args.py")
    trees = [_tree(path) for path in sorted(glob.glob(front, recursive=True))]
    if engine is None or not trees or None in trees:
        return None
    names = set()
    for tree in (engine, *trees):
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
                names |= {_text(argument) for argument in node.args}
            elif isinstance(node, ast.ClassDef) and node.name.endswith("FrontendArgs"):
                fields = (n for n in node.body if isinstance(n, ast.AnnAssign))
                named = [f.target.id for f in fields if isinstance(f.target, ast.Name)]
                names |= {"--" + name.replace("_", "-") for name in named}
    return sorted(name[2:] for name in names if name and name.startswith("--")) or None


def _non_causal(package: str) -> Optional[List[str]]:
    """The attention backends, as the registry names them, whose class says that it can do
    non-causal attention. None where no class is asked: an older vLLM, or another way of asking."""
    folder = os.path.join(package, "v1", "attention")
    registry = _tree(os.path.join(folder, "backends", "registry.py"))
    said: Dict[str, bool] = {}
    bases: Dict[str, str] = {}
    for path in glob.glob(os.path.join(folder, "**", "*.py"), recursive=True):
        text = _read(path)
        bases.update(_BASE.findall(text))
        # Parsing all of them takes a second, and most do not speak of it.
        tree = _parsed(text) if ASKED in text else None
        for node in tree.body if tree else ():
            answer = _answer(node) if isinstance(node, ast.ClassDef) else None
            if answer is not None and isinstance(node, ast.ClassDef):
                said[node.name] = answer
    if registry is None or not said:
        return None
    names = _backends(registry)
    return sorted(name for name, made in names.items() if _inherited(made, said, bases)) or None


def _answer(node: ast.ClassDef) -> Optional[bool]:
    """What a class's own method returns: False where it is the constant False alone."""
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == ASKED:
            returned = [n.value for n in ast.walk(item) if isinstance(n, ast.Return)]
            return not all(isinstance(v, ast.Constant) and v.value is False for v in returned)
    return None


def _inherited(name: str, said: Dict[str, bool], bases: Dict[str, str]) -> bool:
    seen = set()
    while name not in said and name in bases and name not in seen:
        seen.add(name)
        name = bases[name]
    return said.get(name, False)


def _backends(registry: ast.Module) -> Dict[str, str]:
    """The class that stands behind each name of the registry's enumeration."""
    found: Dict[str, str] = {}
    for node in registry.body:
        if isinstance(node, ast.ClassDef) and node.name == "AttentionBackendEnum":
            for item in node.body:
                path = _text(item.value) if isinstance(item, ast.Assign) else None
                if path and isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
                    found[item.targets[0].id] = path.rsplit(".", 1)[-1]
    return found
