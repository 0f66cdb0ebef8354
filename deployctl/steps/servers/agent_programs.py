"""Units whose program is the agent itself: the front, the router's launcher, the proxy."""

from __future__ import annotations

from deployctl.agent.wire.answers import UnitState
from deployctl.hosts.bundle import bundle
from deployctl.hosts.operations import network, units
from deployctl.hosts.session import Session
from deployctl.steps.interface import Context, Deployment, Step
from deployctl.steps.servers import siblings
from deployctl.steps.servers.process import strangers


def start(session: Session, wanted: Deployment, program: str, file: str, release: str) -> None:
    """Start the unit that is named like its program, with the file that the program reads (below
    the root, `@/…`); raises RemoteError where it does not come up."""
    session.call(
        units.start,
        **siblings.of_unit(wanted, program).unit_id,
        argv=[
            str(session.agent["executable"]),
            "-I",
            f"{session.root}/agent/{bundle().sha256}.pyz",
            program,
            f"{session.root}{file[1:]}",
        ],
        release=release,
        supervisor=wanted.profile.serve.supervisor,
    )


def refuse_held_port(step: Step, context: Context, port: int, unit: UnitState) -> None:
    """Raise where somebody else than the unit holds the router's port, as it is now: the one that
    was there when that was asked may have left it."""
    others = strangers(context.session.call(network.listener, port=port), unit)
    if others:
        raise step.fail(
            context,
            f"port {port}, the router's, is held by pid {others[0]['pid']}",
            str(others[0]["command"] or others[0]["comm"]),
            "stop that program, or choose another router.port",
        )
