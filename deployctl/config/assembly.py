"""Documents put together from files: what a profile extends, and files that are named."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from deployctl.config.document import Value, display
from deployctl.config.layers import merge
from deployctl.config.origins import Origin
from deployctl.config.problems import Problem
from deployctl.config.profile import Profile
from deployctl.config.search import SINGULAR, SUFFIXES, Kind, Search, expanded, is_file, is_path
from deployctl.config.suggest import did_you_mean
from deployctl.config.yamltext import read

# A profile's name is its own: two profiles of one name would share releases on a host.
_NOT_INHERITED = ("name", "extends")


class Assembly:
    """Reads files and joins them; collects what is wrong and goes on, so that all is reported.

    `files` are those that were read, `problems` what is wrong in them, and `whole` is false when
    something that a profile extends is missing, so that absent keys prove nothing.
    """

    def __init__(self, search: Search) -> None:
        self._search = search
        self.files: list[Path] = []
        self.problems: list[Problem] = []
        self.whole = True

    def document(self, path: Path) -> Value:
        """A file's document, named after the file where it gives no name."""
        return _named(self.read(path), path)

    def profile(self, path: Path) -> Value:
        """A profile with what it extends below it; its hosts still as they are written."""
        return _named(self._extended(path, ()), path)

    def read(self, path: Path) -> Value:
        """A file's mapping; an empty one, and a problem, where it holds something else."""
        if path not in self.files:
            self.files.append(path)
        tree = read(path, self.problems)
        if isinstance(tree.content, dict):
            return tree
        self.report(tree.origin, "", "the file must hold a mapping: lines of `key: value`")
        self.whole = False
        return replace(tree, content={})

    def _extended(self, path: Path, above: tuple[Path, ...]) -> Value:
        tree = self.read(path)
        reference = tree.child("extends")
        if reference is None or not isinstance(reference.content, str):
            return tree
        # A profile may extend another of its own name that lies in a later place.
        chain = (*above, path)
        candidates = self.candidates("profiles", reference.content, path.parent)
        if reference.content == path.stem:
            candidates = (file for file in candidates if not among(file, chain))
        base = next(candidates, None)
        if base is None:
            self.whole = False
            self.lost("profiles", reference, "extends")
            return tree
        if among(base, chain):
            self.whole = False
            names = " → ".join(display(item) for item in (*chain, base))
            self.report(reference.origin, "extends", f"circular reference: {names}")
            return tree
        extended = self._extended(base, chain)
        return merge(replace(extended, content=_inherited(extended.entries)), tree, Profile)

    def candidates(self, kind: Kind, reference: str, folder: Path) -> Iterator[Path]:
        """The files that a name or path in a file of `folder` may stand for, best first."""
        if is_path(reference):
            path = Path(os.path.normpath(folder / expanded(reference)))
            if is_file(path):
                yield path
            return
        here = folder / kind.removeprefix("profiles").lstrip("/")
        for suffix in SUFFIXES:
            if is_file(here / f"{reference}{suffix}"):
                yield here / f"{reference}{suffix}"
        found = self._search.named(kind, reference)
        if found is not None:
            yield from (found.path, *found.shadowed)

    def lost(self, kind: Kind, reference: Value, path: str) -> None:
        """Report a name or path that no file stands for."""
        name = str(reference.content)
        if is_path(name):
            message = f"there is no file {name} (a path counts from the file that names it)"
        else:
            own = Path(reference.origin.source).stem
            known = [found.name for found in self._search.found(kind) if found.name != own]
            message = (
                f"no {SINGULAR[kind]} is named {name}{did_you_mean(name, known)}"
                f" (looked beside the file and in {', '.join(self._search.looked_in(kind))})"
            )
        self.report(reference.origin, path, message)

    def report(self, origin: Origin, path: str, message: str) -> None:
        """Report what is wrong at a place."""
        self.problems.append(Problem(origin, path, message))


def _named(tree: Value, path: Path) -> Value:
    if "name" in tree.entries:
        return tree
    return tree.with_entry("name", Value(path.stem, Origin(display(path), 1, 1)))


def among(file: Path, others: Iterable[Path]) -> bool:
    """Whether a file is one of others, whatever its name."""
    return any(file.samefile(other) for other in others)


def _inherited(entries: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in entries.items() if name not in _NOT_INHERITED}
