"""A profile put together from files: what it extends, and hosts and nodes given by name."""

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
    """Reads files and joins them; collects what is wrong and goes on, so that all is told.

    `files` are those that were read, `problems` what is wrong in them, and `whole` is false when
    something that a profile extends is missing, so that absent keys mean nothing.
    """

    def __init__(self, search: Search) -> None:
        self._search = search
        self.files: list[Path] = []
        self.problems: list[Problem] = []
        self.whole = True
        self._given_up: set[Origin] = set()

    def document(self, path: Path) -> Value:
        """A file's document, named after the file where it gives no name."""
        return _named(self._read(path), path)

    def profile(self, path: Path) -> Value:
        """A profile with what it extends below it; its hosts still as they are written."""
        return _named(self._extended(path, ()), path)

    def with_hosts(self, tree: Value, beside: Path) -> Value:
        """A profile with every host and node that is given by name replaced by its file.

        May be called again for names that were set since; what was lost is told once. Names from
        the command line or the environment are looked up in `beside` first.
        """
        hosts = tree.child("hosts")
        if hosts is None or not hosts.items:
            return tree
        items = tuple(
            self.host(host, f"hosts.{index}", beside) for index, host in enumerate(hosts.items)
        )
        return tree.with_entry("hosts", replace(hosts, content=items))

    def host(self, host: Value, path: str, beside: Path, above: tuple[Path, ...] = ()) -> Value:
        """A host with its file in place of its name, and its node likewise."""
        if isinstance(host.content, str):
            if host.origin in self._given_up:
                return host
            file = self._beside(host, beside, path)
            if file is None:
                return host
            if _among(file, above):
                names = " → ".join(display(item) for item in (*above, file))
                self._report(host.origin, path, f"a circle: {names}")
                self._given_up.add(host.origin)
                return host
            above = (*above, file)
            host = replace(self.document(file), key=host.key)
            beside = file.parent.parent if file.parent.name == "hosts" else file.parent
        node = host.child("node")
        if node is None:
            return host
        return host.with_entry("node", self.host(node, f"{path}.node", beside, above))

    def _beside(self, host: Value, beside: Path, path: str) -> Path | None:
        """A host's file: beside the file that names it, then where it is searched for."""
        named_in = next((f for f in self.files if display(f) == host.origin.source), None)
        folder = named_in.parent if named_in else beside
        folder = folder.parent if folder.name == "hosts" else folder
        file = next(self._candidates("profiles/hosts", str(host.content), folder), None)
        if file is None:
            self._lost("profiles/hosts", host, path)
            self._given_up.add(host.origin)
        return file

    def _read(self, path: Path) -> Value:
        if path not in self.files:
            self.files.append(path)
        tree = read(path, self.problems)
        if isinstance(tree.content, dict):
            return tree
        self._report(tree.origin, "", "the file must hold a mapping: lines of `key: value`")
        self.whole = False
        return replace(tree, content={})

    def _extended(self, path: Path, above: tuple[Path, ...]) -> Value:
        tree = self._read(path)
        reference = tree.child("extends")
        if reference is None or not isinstance(reference.content, str):
            return tree
        # A profile may extend another of its own name that lies in a later place.
        chain = (*above, path)
        candidates = self._candidates("profiles", reference.content, path.parent)
        if reference.content == path.stem:
            candidates = (file for file in candidates if not _among(file, chain))
        base = next(candidates, None)
        if base is None:
            self.whole = False
            self._lost("profiles", reference, "extends")
            return tree
        if _among(base, chain):
            self.whole = False
            names = " → ".join(display(item) for item in (*chain, base))
            self._report(reference.origin, "extends", f"a circle: {names}")
            return tree
        extended = self._extended(base, chain)
        return merge(replace(extended, content=_inherited(extended.entries)), tree, Profile)

    def _candidates(self, kind: Kind, reference: str, folder: Path) -> Iterator[Path]:
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

    def _lost(self, kind: Kind, reference: Value, path: str) -> None:
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
        self._report(reference.origin, path, message)

    def _report(self, origin: Origin, path: str, message: str) -> None:
        self.problems.append(Problem(origin, path, message))


def _named(tree: Value, path: Path) -> Value:
    if "name" in tree.entries:
        return tree
    return tree.with_entry("name", Value(path.stem, Origin(display(path), 1, 1)))


def _among(file: Path, others: Iterable[Path]) -> bool:
    return any(file.samefile(other) for other in others)


def _inherited(entries: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in entries.items() if name not in _NOT_INHERITED}
