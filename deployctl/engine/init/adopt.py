"""A server that was started by hand, made a profile's: found, described, recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from deployctl.config.host import HostSettings, SshSettings
from deployctl.config.loader import list_hosts, load_host
from deployctl.config.profile import Profile
from deployctl.config.search import is_path
from deployctl.engine.connections.connect import connect
from deployctl.engine.init import adopted, by_hand, profile_text, written

ADOPT = "`deployctl adopt`"
HOST_FILE = "name: {name}\nssh: {{address: {address}}}   # as ssh would take it\n"


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
    """A host file's host, or one of that address; with the text of the host file that it needs."""
    if is_path(name) or name in {found.name for found in list_hosts()}:
        return load_host(name), {}
    label = profile_text.label(name.rpartition("@")[2])
    text = HOST_FILE.format(name=label, address=name)
    return HostSettings(name=label, ssh=SshSettings(address=name)), {label: text}


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
        adopted.check(host.name, profile, server, session)
        release = adopted.record(host.name, profile, server, session, drafter)
        # Last: where the record fails, the same command can be given again.
        written.create(files)
    return Adopted(profile.name, server.words(), release, list(files), notes)
