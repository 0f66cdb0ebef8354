"""A drafted profile on disk: valid, with the same command line, and over nothing else."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from deployctl.config.loader import load_profile
from deployctl.config.profile import Profile
from deployctl.engine.init.profile_text import Draft, tokens
from deployctl.errors import UsageError
from deployctl.steps.interface import Deployment
from deployctl.steps.servers.serving import serve_settings
from deployctl.vllm.serving.arguments import Arguments, parse
from deployctl.vllm.serving.command import command
from deployctl.vllm.serving.knowledge import read

ADDED = {"served-model-name", "host", "port", "tensor-parallel-size"}
"""Options that a profile always gives, with vLLM's own default where none was given."""
NOT_IN_ARGV = {"api-key", "revision"}
"""Given in another way: the key in the environment, the revision by what is fetched."""


def write(draft: Draft, folder: Path, hosts: dict[str, str]) -> list[Path]:
    """Validate the draft, then write it and its host files below `folder`.

    Raises `ConfigError` where the draft is not valid, `UsageError` where a file is there already;
    then nothing is written.
    """
    made = files(draft, folder / f"{draft.name}.yaml", hosts)
    valid(draft, made)
    create(made)
    return list(made)


def files(draft: Draft, path: Path | None, hosts: dict[str, str]) -> dict[Path, str]:
    """The profile (./profiles/NAME.yaml for None) and its host files, beside it, with their texts;
    raises `UsageError` where one is there already."""
    profile = path or Path("profiles") / f"{draft.name}.yaml"
    made = {profile: draft.text}
    made |= {profile.parent / "hosts" / f"{name}.yaml": text for name, text in hosts.items()}
    there = [path for path in made if path.exists()]
    if there:
        raise UsageError(
            f"{there[0]} exists", "init never overwrites", "choose another: --name NAME"
        )
    return made


def valid(draft: Draft, made: dict[Path, str]) -> Profile:
    """The profile as it would be read; its notes get what differs. Raises `ConfigError`."""
    profile, *_ = made
    with tempfile.TemporaryDirectory() as scratch:
        for path, text in made.items():
            copy = Path(scratch) / path.relative_to(profile.parent)
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(text, encoding="utf-8")
        found = load_profile(str(Path(scratch) / profile.name), environ={}).profile
    draft.notes.extend(differences(draft.arguments, found))
    return found


def create(made: dict[Path, str]) -> None:
    """Write files that are not there yet."""
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)


def differences(wanted: Arguments, profile: Profile) -> list[str]:
    """Options that the profile's command line has otherwise than the given one, in sentences."""
    drafter = profile.drafter
    model = drafter.model if drafter is not None else None
    named = (model.path or model.repo) if model is not None else None
    settings = serve_settings(
        Deployment(profile, profile.hosts[0]), "vllm", str(wanted.model), named, read(None)
    )
    made = parse(command(settings)[2:]).options
    found = []
    for name in sorted({*wanted.options, *made} - NOT_IN_ARGV):
        before, after = wanted.options.get(name), made.get(name)
        if before is None and name in ADDED:
            continue
        if _plain(name, before) != _plain(name, after):
            found.append(f"--{name}: given {_words(before)}, the profile has {_words(after)}")
    return found


def _plain(name: str, value: bool | list[str] | None) -> object:
    """A value without the differences of writing: numbers, and JSON's blanks and order."""
    if not isinstance(value, list):
        return value
    if name == "max-model-len":
        return [tokens(one) for one in value]
    plain: list[object] = []
    for one in value:
        try:
            found = json.loads(one)
        except ValueError:
            found = one
        if name == "speculative-config" and isinstance(found, dict):
            found.pop("revision", None)
        plain.append(found)
    return plain


def _words(value: bool | list[str] | None) -> str:
    if value is None:
        return "nothing"
    return "the switch" if isinstance(value, bool) else " ".join(value)
