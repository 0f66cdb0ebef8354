"""Profiles and playbooks from files, environment and command line, validated completely.

Precedence: `--set`, then the environment, then the profile (and what it extends), then defaults.
After this module nothing reads YAML.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from deployctl.config import overrides, references, step_options, validation_errors
from deployctl.config.assembly import Assembly
from deployctl.config.base import Settings
from deployctl.config.document import Value, display, leaves
from deployctl.config.host import HostSettings
from deployctl.config.host_list import MEMBERS, HostList
from deployctl.config.inventories.interface import Reader
from deployctl.config.inventories.registry import READERS
from deployctl.config.inventory import GroupSettings
from deployctl.config.origins import COMMAND_LINE, DEFAULT, Origin
from deployctl.config.playbook import Playbook
from deployctl.config.problems import dotted, invalid
from deployctl.config.profile import Profile
from deployctl.config.search import Found, Search, default_search
from deployctl.config.shape import fitted
from deployctl.errors import UsageError

Model = TypeVar("Model", bound=Settings)


@dataclass(frozen=True)
class Loaded:
    """A validated profile, where each of its leaves comes from, and the files it was read from."""

    profile: Profile
    origins: Mapping[str, Origin]
    files: tuple[Path, ...]
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Groups of hosts that were met, by name: the names of their hosts."""


def load_profile(
    name_or_path: str,
    *,
    sets: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    search: Search | None = None,
    readers: Mapping[str, Reader] = READERS,
) -> Loaded:
    """The profile of that name or file, with overrides (`environ`: os.environ when absent).

    `readers` read the inventory that a profile may name, by its kind.

    Raises `ConfigError` that lists every problem with its place, and `UsageError` for a name or
    a `--set` path that does not exist.
    """
    places = search or default_search()
    found = places.locate("profiles", name_or_path)
    assembly = Assembly(places)
    wanted = [
        *overrides.from_environment(os.environ if environ is None else environ, Profile),
        *overrides.from_command_line(sets),
    ]
    hosts = HostList(assembly, readers)
    tree = hosts.of_profile(assembly.profile(found.path), found.path.parent)
    tree = _overridden(tree, wanted, assembly)
    # Once more, for hosts that an override named.
    tree = fitted(hosts.of_profile(tree, found.path.parent), Profile)
    tree = references.with_files(tree)
    assembly.problems.extend(references.problems(tree, places))
    profile = _validated(Profile, tree, assembly, f"profile {display(found.path)} is invalid")
    return Loaded(profile, _origins(profile, tree), tuple(assembly.files), hosts.groups)


def load_playbook(
    name_or_path: str, steps: step_options.Options, *, search: Search | None = None
) -> Playbook:
    """The playbook of that name or file, of these steps and their options."""
    places = search or default_search()
    found = places.locate("playbooks", name_or_path)
    assembly = Assembly(places)
    tree = fitted(assembly.document(found.path), Playbook)
    assembly.problems.extend(references.unknown_steps(tree, steps))
    assembly.problems.extend(step_options.problems(tree, steps))
    return _validated(Playbook, tree, assembly, f"playbook {display(found.path)} is invalid")


def load_host(name_or_path: str, *, search: Search | None = None) -> HostSettings:
    """The host file of that name or path, its node in place."""
    places = search or default_search()
    found = places.locate("profiles/hosts", name_or_path)
    assembly = Assembly(places)
    document = assembly.document(found.path)
    if MEMBERS in document.entries:
        raise UsageError(f"{name_or_path} is a group of hosts", next="Name one of its hosts.")
    tree = HostList(assembly).host(document, "", found.path.parent, (found.path,))
    return _validated(
        HostSettings,
        fitted(tree, HostSettings),
        assembly,
        f"host {display(found.path)} is invalid",
    )


def check_host_file(path: Path, *, search: Search | None = None) -> None:
    """Validate a host file or a group file; raises as `load_host` does."""
    assembly = Assembly(search or default_search())
    if MEMBERS not in assembly.document(path).entries:
        load_host(str(path), search=search)
        return
    assembly = Assembly(search or default_search())
    tree = fitted(HostList(assembly).group(path), GroupSettings)
    _validated(GroupSettings, tree, assembly, f"group {display(path)} is invalid")


def list_profiles(search: Search | None = None) -> list[Found]:
    """Every profile that can be named, with where it comes from and what it shadows."""
    return (search or default_search()).found("profiles")


def list_hosts(search: Search | None = None) -> list[Found]:
    """Every host that a profile can name, with where it comes from and what it shadows."""
    return (search or default_search()).found("profiles/hosts")


def _overridden(tree: Value, wanted: Sequence[overrides.Override], assembly: Assembly) -> Value:
    for override in wanted:
        try:
            tree = overrides.apply(tree, override, Profile)
        except overrides.UnknownPath as error:
            if override.origin != COMMAND_LINE:
                assembly.problems.append(overrides.problem(override, error))
            elif not assembly.problems:
                raise UsageError(
                    f"--set {override.path()}: {error}",
                    next="`deployctl profile show NAME` prints every key.",
                ) from None
    return tree


def _validated(model: type[Model], tree: Value, assembly: Assembly, what: str) -> Model:
    """The model of a tree; raises `ConfigError` with the assembly's problems and the schema's."""
    found = [*assembly.problems, *references.endless_numbers(tree)]
    try:
        result = model.model_validate(tree.plain())
    except ValidationError as error:
        told = {problem.path for problem in found if problem.path}
        found += (
            problem
            for problem in validation_errors.problems(error, tree, model, complete=assembly.whole)
            if problem.path not in told
        )
    if found:
        raise invalid(what, found)
    return result


def _origins(profile: Profile, tree: Value) -> dict[str, Origin]:
    origins = {}
    for path in leaves(profile.model_dump(by_alias=True)):
        value = tree.at(path)
        origins[dotted(path)] = value.origin if value is not None else DEFAULT
    return origins
