"""A server that was started by hand, made a profile's: found, described, recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deployctl.config import ssh_address
from deployctl.config.host import HostSettings, SshSettings
from deployctl.config.loader import list_hosts, load_host
from deployctl.config.profile import Profile
from deployctl.config.search import is_path
from deployctl.config.suggest import nearest
from deployctl.config.yamltext import scalar
from deployctl.engine.connections.connect import connect
from deployctl.engine.init import adopted, by_hand, profile_text, written
from deployctl.errors import Unreachable, UsageError

ADOPT = "`deployctl adopt`"
HOST_FILE = "name: {name}\nssh: {ssh}   # more keys: deployctl profile schema host\n"


@dataclass(frozen=True)
class Adopted:
    """What came of it: the files that were written, the release that was recorded, and what a
    person must look at."""

    profile: str
    server: str
    release: str
    files: list[Path]
    notes: list[str] = field(default_factory=list)


def host_named(name: str) -> tuple[HostSettings, dict[str, str]]:
    """A host file's host, or one of that address, as `ssh_address.split` reads it; with the text of
    the host file that it needs. Raises `UsageError` where it is neither."""
    addressed = name.startswith(ssh_address.SCHEME)
    if not addressed and (is_path(name) or name in {found.name for found in list_hosts()}):
        return load_host(name), {}
    try:
        parts = ssh_address.split(name)
    except ValueError as error:
        raise UsageError(str(error), next="name a host as ssh takes it") from error
    given = {"address": parts.host, "user": parts.user, "port": parts.port}
    given = {key: value for key, value in given.items() if value is not None}
    label = profile_text.label(parts.host)
    host = HostSettings(name=label, ssh=SshSettings.model_validate(given))
    return host, {label: HOST_FILE.format(name=scalar(label), ssh=scalar(given))}


@contextmanager
def likely(name: str) -> Iterator[None]:
    """Name the host file that was probably meant, where a machine is not reached under a name that
    has no host file."""
    try:
        yield
    except Unreachable as error:
        known = [found.name for found in list_hosts()]
        near = None if is_path(name) or name in known else nearest(name, known)
        if near is not None:
            error.next = f"did you mean the host file {near}? {error.next}"
        raise


def adopt(
    host: HostSettings,
    texts: dict[str, str],
    *,
    pid: int | None = None,
    port: int | None = None,
    output: Path | None = None,
    name: str | None = None,
    profile: Profile | None = None,
) -> Adopted:
    """Look at a host, write the profile of the server there (none where `profile` is given), and
    record the server as its current release. Raises `UsageError` where no server or several are
    meant, or a file is there already, `ConfigError` where the profile would not be valid."""
    with connect(host) as connected:
        session = connected.session
        server = by_hand.choose(host.name, by_hand.servers(host.name, session), pid, port)
        by_hand.check_secrets(server)
        drafter = by_hand.drafter(server, session)
        notes: list[str] = []
        files: dict[Path, str] = {}
        if profile is None:
            given = by_hand.given(server, session)
            chosen = name or (output.stem if output is not None else None)
            draft = profile_text.draft(given, chosen, host.name, f"host {host.name}", ADOPT)
            files = written.files(draft, output, texts)
            profile, notes = written.valid(draft, files), draft.notes
        notes += by_hand.not_answering(server, session)
        adopted.check(host.name, profile, server, session)
        release = adopted.record(host.name, profile, server, session, drafter)
        # Last: where the record fails, the same command can be given again.
        written.create(files)
    return Adopted(profile.name, server.words(), release, list(files), notes)
