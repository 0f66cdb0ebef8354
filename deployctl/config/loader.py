"""Profiles and playbooks from files, environment and command line, validated completely.

Precedence: `--set`, then the environment, then the profile (and what it extends), then defaults.
After this module nothing reads YAML.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from deployctl.config import overrides
from deployctl.config.base import Settings
from deployctl.config.complaints import problems
from deployctl.config.document import Value, display, leaves, merge, read
from deployctl.config.host import HostSettings
from deployctl.config.origins import COMMAND_LINE, DEFAULT, Origin
from deployctl.config.playbook import Playbook
from deployctl.config.problems import Problem, dotted, invalid
from deployctl.config.profile import Profile
from deployctl.config.search import Found, Kind, Search, default_search, is_path
from deployctl.config.shape import with_text
from deployctl.config.suggest import did_you_mean
from deployctl.errors import UsageError

Model = TypeVar("Model", bound=Settings)


@dataclass(frozen=True)
class Loaded:
    """A validated profile, where each of its leaves comes from, and the files it was read from."""

    profile: Profile
    origins: Mapping[str, Origin]
    files: tuple[Path, ...]


def load_profile(
    name_or_path: str,
    *,
    sets: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    search: Search | None = None,
) -> Loaded:
    """The profile of that name or file, with overrides.

    Raises `ConfigError` that lists every problem with its place, and `UsageError` for a name or
    a `--set` path that does not exist.
    """
    return _Loading(search or default_search()).profile(
        name_or_path, sets, os.environ if environ is None else environ
    )


def load_playbook(
    name_or_path: str, known_steps: Collection[str], *, search: Search | None = None
) -> Playbook:
    """The playbook of that name or file; its steps' names are checked, their options are not."""
    places = search or default_search()
    found = places.locate("playbooks", name_or_path)
    tree = _named(read(found.path), found)
    playbook = _validated(Playbook, tree, f"playbook {display(found.path)} is invalid")
    unknown = []
    for index, step in enumerate(playbook.steps):
        if step.step not in known_steps:
            value = tree.entries["steps"].items[index]
            origin = value.entries["step"].origin if value.entries else value.origin
            message = f"no step is named {step.step}{did_you_mean(step.step, known_steps)}"
            unknown.append(Problem(origin, f"steps.{index}", message))
    if unknown:
        raise invalid(f"playbook {display(found.path)} is invalid", unknown)
    return playbook


def load_host(name_or_path: str, *, search: Search | None = None) -> HostSettings:
    """The host file of that name or path, its node in place."""
    places = search or default_search()
    found = places.locate("profiles/hosts", name_or_path)
    return _Loading(places).host(found)


def list_profiles(search: Search | None = None) -> list[Found]:
    """Every profile that can be named, with where it comes from and what it shadows."""
    return (search or default_search()).found("profiles")


def list_playbooks(search: Search | None = None) -> list[Found]:
    """Every playbook that can be named, with where it comes from and what it shadows."""
    return (search or default_search()).found("playbooks")


def list_hosts(search: Search | None = None) -> list[Found]:
    """Every host that a profile can name, with where it comes from and what it shadows."""
    return (search or default_search()).found("profiles/hosts")


class _Loading:
    """One profile being read: the files it took and where names are looked for."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._files: list[Path] = []
        self._problems: list[Problem] = []

    def profile(self, name_or_path: str, sets: Sequence[str], environ: Mapping[str, str]) -> Loaded:
        found = self._search.locate("profiles", name_or_path)
        what = f"profile {display(found.path)} is invalid"
        tree = _named(self._extended(found.path, ()), found)
        tree = self._with_hosts(tree, found.path.parent)
        wanted = [
            *overrides.from_environment(environ, Profile),
            *overrides.from_command_line(sets),
        ]
        tree = self._overridden(tree, wanted)
        tree = self._with_hosts(tree, found.path.parent)
        if self._problems:
            raise invalid(what, self._problems)
        profile = _validated(Profile, tree, what)
        return Loaded(profile, _origins(profile, tree), tuple(self._files))

    def host(self, found: Found) -> HostSettings:
        what = f"host {display(found.path)} is invalid"
        value = Value(str(found.path.absolute()), Origin(display(found.path)))
        tree = self._host(value, "", found.path.parent, ())
        if self._problems:
            raise invalid(what, self._problems)
        return _validated(HostSettings, tree, what)

    def _read(self, path: Path) -> Value:
        if path not in self._files:
            self._files.append(path)
        return read(path)

    def _extended(self, path: Path, above: tuple[Path, ...]) -> Value:
        tree = self._read(path)
        reference = tree.child("extends")
        if reference is None or not isinstance(reference.content, str):
            return tree
        base = self._referred("profiles", reference.content, path.parent)
        if base is None:
            return self._lost("profiles", reference, "extends", tree)
        chain = (*above, path)
        if any(base.samefile(other) for other in chain):
            names = " → ".join(display(item) for item in (*chain, base))
            self._problems.append(Problem(reference.origin, "extends", f"a circle: {names}"))
            return tree
        extended = self._extended(base, chain)
        # A profile's name is its own: two profiles of one name would share releases on a host.
        inherited = {k: v for k, v in extended.entries.items() if k not in ("name", "extends")}
        return merge(replace(extended, content=inherited), tree)

    def _referred(self, kind: Kind, reference: str, beside: Path) -> Path | None:
        """A file named in another: by path from there, by name beside it, or by the search."""
        if is_path(reference):
            path = beside / Path(reference).expanduser()
            return path if path.is_file() else None
        folder = beside / kind.removeprefix("profiles").lstrip("/")
        near = folder / f"{reference}.yaml"
        if near.is_file():
            return near
        found = self._search.named(kind, reference)
        return found.path if found else None

    def _lost(self, kind: Kind, reference: Value, path: str, instead: Value) -> Value:
        known = [found.name for found in self._search.found(kind)]
        word = "profile" if kind == "profiles" else "host"
        message = (
            f"no {word} is named {reference.content}"
            f"{did_you_mean(str(reference.content), known)}"
            f" (looked beside the file and in {', '.join(self._search.looked_in(kind))})"
        )
        self._problems.append(Problem(reference.origin, path, message))
        return instead

    def _with_hosts(self, tree: Value, beside: Path) -> Value:
        hosts = tree.child("hosts")
        if hosts is None:
            return tree
        items = tuple(
            self._host(host, f"hosts.{index}", beside, ()) for index, host in enumerate(hosts.items)
        )
        return tree.with_entry("hosts", replace(hosts, content=items)) if items else tree

    def _host(self, host: Value, path: str, beside: Path, above: tuple[str, ...]) -> Value:
        """A host with its file read where it is named, and its node's likewise."""
        if isinstance(host.content, str):
            reference = host.content
            if reference in above:
                names = " → ".join((*above, reference))
                self._problems.append(Problem(host.origin, path, f"a circle: {names}"))
                return host
            folder = self._folder(host.origin, beside)
            file = self._referred("profiles/hosts", reference, folder)
            if file is None:
                return self._lost("profiles/hosts", host, path, host)
            above = (*above, reference)
            host = replace(_named(self._read(file), Found(file.stem, file, "")), key=host.key)
        node = host.child("node")
        if node is None or node.content is None:
            return host
        return host.with_entry("node", self._host(node, f"{path}.node", beside, above))

    def _folder(self, origin: Origin, beside: Path) -> Path:
        """The profiles folder next to the file in which a host is named."""
        for file in self._files:
            if display(file) == origin.source:
                return file.parent.parent if file.parent.name == "hosts" else file.parent
        return beside

    def _overridden(self, tree: Value, wanted: Sequence[overrides.Override]) -> Value:
        for override in wanted:
            try:
                tree = overrides.apply(tree, override, Profile)
            except overrides.UnknownPath as error:
                if override.origin == COMMAND_LINE:
                    raise UsageError(
                        f"--set {dotted(override.tokens)}: {error}",
                        "",
                        "`deployctl profile show NAME` prints every key.",
                    ) from None
                self._problems.append(overrides.problem(override, error))
        return tree


def _named(tree: Value, found: Found) -> Value:
    """A document with its file's name as its name, where it gives none."""
    if not isinstance(tree.content, dict) or "name" in tree.content:
        return tree
    return tree.with_entry("name", Value(found.name, Origin(display(found.path), 1, 1)))


def _validated(model: type[Model], tree: Value, what: str) -> Model:
    tree = with_text(tree, model)
    try:
        return model.model_validate(tree.plain())
    except ValidationError as error:
        raise invalid(what, problems(error, tree, model)) from None


def _origins(profile: Profile, tree: Value) -> dict[str, Origin]:
    origins = {}
    for path in leaves(profile.model_dump(by_alias=True)):
        value: Value | None = tree
        for token in path:
            value = value.child(token) if value is not None else None
        origins[dotted(path)] = value.origin if value is not None else DEFAULT
    return origins
