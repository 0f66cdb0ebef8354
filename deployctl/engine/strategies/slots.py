"""The two slots of a blue-green profile: profiles of their own, beside each other on one host."""

from __future__ import annotations

import json
from typing import Any, Literal

from deployctl.agent.wire.answers import FileContent
from deployctl.config.profile import Profile
from deployctl.config.switch import SwitchSettings
from deployctl.errors import RemoteError
from deployctl.hosts.bundle import bundle
from deployctl.hosts.operations import files, units
from deployctl.hosts.session import Call, Session

Slot = Literal["blue", "green"]
SLOTS: tuple[Slot, Slot] = ("blue", "green")
Address = tuple[str, int]
FRONT = "front"
"""What the front's unit runs, in place of a release."""


def blue_green(profile: Profile) -> bool:
    """Whether a profile has slots."""
    return profile.switch.strategy == "blue-green"


def other(slot: Slot) -> Slot:
    return "green" if slot == "blue" else "blue"


def slot_profile(profile: Profile, slot: Slot) -> Profile:
    """The profile of one slot: its own name, port and GPUs; releases, ledger and unit follow."""
    settings = getattr(profile.switch, slot)
    serve = profile.serve.model_copy(
        update={
            "host": "127.0.0.1",
            "port": settings.port,
            "gpus": profile.serve.gpus if settings.gpus is None else settings.gpus,
        }
    )
    update = {"name": f"{profile.name}.{slot}", "serve": serve, "switch": SwitchSettings()}
    return profile.model_copy(update=update)


def front_file(profile: Profile) -> str:
    """Where the front reads which slot serves."""
    return f"@/profiles/{profile.name}/front.json"


def ask_live(profile: Profile) -> Call[FileContent]:
    """The request that tells which slot serves."""
    return Call(files.read, path=front_file(profile))


def live(answer: FileContent | RemoteError) -> Slot | None:
    """The slot that serves, from the answer; None where nothing was ever switched."""
    found = _front(answer).get("slot")
    return found if found in SLOTS else None


def listens(answer: FileContent | RemoteError) -> Address | None:
    """Where the front was configured to listen, from the answer to `ask_live`; None where it was
    not.
    """
    found = _front(answer)
    return (str(found.get("host")), int(found.get("port") or 0)) if found else None


def _front(answer: FileContent | RemoteError) -> dict[str, Any]:
    if isinstance(answer, RemoteError) or not answer["text"]:
        return {}
    return dict(json.loads(answer["text"]))


def serving(session: Session, profile: Profile) -> Profile:
    """The profile whose unit serves: itself, or its live slot."""
    if not blue_green(profile):
        return profile
    slot = live(session.ask((ask_live(profile),))[0])
    return profile if slot is None else slot_profile(profile, slot)


def idle(profile: Profile, serving: Profile) -> Slot:
    """The slot for the next release, beside the profile that `serving` named."""
    return "green" if serving.name == f"{profile.name}.blue" else "blue"


def turn(session: Session, profile: Profile, slot: Slot) -> None:
    """Turn the front to a slot: from now on new connections go there."""
    content = {
        "host": profile.serve.host,
        "port": profile.serve.port,
        "slot": slot,
        "target": getattr(profile.switch, slot).port,
    }
    session.call(files.write, path=front_file(profile), text=json.dumps(content) + "\n")


def start_front(session: Session, profile: Profile) -> None:
    """Start the front as this profile's unit; raises RemoteError where it does not come up."""
    archive = f"{session.root}/agent/{bundle().sha256}.pyz"
    path = f"{session.root}/profiles/{profile.name}/front.json"
    session.call(
        units.start,
        name=profile.name,
        argv=[session.agent["executable"], "-I", archive, FRONT, path],
        release=FRONT,
        supervisor=profile.serve.supervisor,
    )
    session.call(units.keep, name=profile.name)
