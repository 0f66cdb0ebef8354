"""The source tree of a vLLM, read without importing it. Standard library alone."""

from __future__ import annotations

import ast
import os
import re
from typing import Dict, Iterator, List, Optional, Set, Tuple, Union

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]


class Module:
    """One parsed file."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self.path = path
        self.tree = tree

    def functions(self) -> Iterator[Function]:
        """Every function and method, nested ones too."""
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node

    def classes(self) -> Iterator[ast.ClassDef]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ClassDef):
                yield node


class Tree:
    """A folder that contains `vllm/`, or `vllm` itself. Paths are relative to the folder."""

    def __init__(self, folder: str) -> None:
        top = os.path.abspath(folder)
        if os.path.basename(top) != "vllm" or not os.path.isfile(os.path.join(top, "__init__.py")):
            top = os.path.join(top, "vllm")
        self.folder = os.path.dirname(top)
        self.package = top
        self._sources: Dict[str, bytes] = {}
        self._modules: Dict[str, Optional[Module]] = {}
        self._read = False

    def exists(self) -> bool:
        return os.path.isfile(os.path.join(self.package, "__init__.py"))

    def version(self) -> Optional[str]:
        """What `_version.py` says, or the name of the dist-info beside the package."""
        text = self._source(os.path.join(self.package, "_version.py")).decode("utf-8", "replace")
        match = re.search(r"^__version__\s*=\s*(?:version\s*=\s*)?['\"]([^'\"]+)", text, re.M)
        if match:
            return match.group(1)
        names = sorted(os.listdir(self.folder))
        match = re.search(r"^vllm(?:_cpu)?-([^-\n]+)\.dist-info$", "\n".join(names), re.M)
        return match.group(1) if match else None

    def with_text(self, needle: str) -> List[Module]:
        """Every file that contains `needle` and can be parsed."""
        self._read_all()
        found = []
        for path, source in self._sources.items():
            if needle.encode() in source:
                module = self._parse(path)
                if module is not None:
                    found.append(module)
        return found

    def unparsable(self, needle: str) -> List[str]:
        """Files that contain `needle` and cannot be parsed by this Python."""
        self._read_all()
        wanted = needle.encode()
        return [
            os.path.relpath(path, self.folder)
            for path, source in self._sources.items()
            if wanted in source and self._parse(path) is None
        ]

    def module(self, dotted: str) -> Optional[Module]:
        """A module by its import name."""
        base = os.path.join(self.folder, *dotted.split("."))
        for path in (base + ".py", os.path.join(base, "__init__.py")):
            if os.path.isfile(path):
                return self._parse(path)
        return None

    def class_named(self, name: str) -> Optional[Tuple[Module, ast.ClassDef]]:
        """The definition of a class, if there is exactly one in the tree."""
        found = [
            (module, node)
            for module in self.with_text(f"class {name}")
            for node in module.classes()
            if node.name == name
        ]
        return found[0] if len(found) == 1 else None

    def _read_all(self) -> None:
        if self._read:
            return
        self._read = True
        for directory, folders, files in os.walk(self.package):
            folders.sort()
            for name in sorted(files):
                if name.endswith(".py"):
                    self._source(os.path.join(directory, name))

    def _source(self, path: str) -> bytes:
        if path not in self._sources:
            try:
                with open(path, "rb") as file:
                    self._sources[path] = file.read()
            except OSError:
                return b""
        return self._sources[path]

    def _parse(self, path: str) -> Optional[Module]:
        if path not in self._modules:
            try:
                parsed = ast.parse(self._source(path))
                self._modules[path] = Module(os.path.relpath(path, self.folder), parsed)
            except (SyntaxError, ValueError):
                self._modules[path] = None
        return self._modules[path]


def strings(node: ast.AST) -> Set[str]:
    """Every string constant below a node."""
    return {
        part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    }


def mentions(node: ast.AST, word: str) -> bool:
    """Whether a name, attribute, keyword or string below a node is `word`."""
    for part in ast.walk(node):
        if word in (
            getattr(part, "id", None),
            getattr(part, "attr", None),
            getattr(part, "arg", None),
            getattr(part, "value", None),
        ):
            return True
    return False


def call_name(node: ast.Call) -> str:
    """The last part of what is called: `Attention` of `layers.Attention(…)`."""
    name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
    return str(name or "")


def keyword(node: ast.Call, name: str) -> Optional[ast.expr]:
    """The value of a keyword argument."""
    return next((part.value for part in node.keywords if part.arg == name), None)


def supports_dflash(tree: Tree) -> Optional[bool]:
    """Whether speculative decoding knows the method `dflash`; None where that is unknown."""
    found = [
        module
        for module in tree.with_text("class SpeculativeConfig")
        if any(node.name == "SpeculativeConfig" for node in module.classes())
    ]
    if not found:
        return None
    return any("dflash" in strings(module.tree) for module in found)
