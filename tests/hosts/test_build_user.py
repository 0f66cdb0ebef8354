"""As whom a build runs, in a container and on a host that forbids namespaces."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deployctl.config.host import HostSettings
from deployctl.errors import RemoteError
from deployctl.hosts.session import Session
from deployctl.hosts.transports import transport
from tests.hosts.lab.network import Lab
from tests.hosts.lab.stand_in import start

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
USER = "deployctl-build"


@pytest.mark.lab
def test_in_a_container(lab: Lab) -> None:
    host = HostSettings(**lab.container.host_settings("pct"))
    look = "id -un; ls -A /root; ls /proc | grep -c '^[0-9]'; mkdir /var/lib/deployctl/x"
    words = ["@agent", "chore", "confined", USER, "@/builds/k", "", "@/caches/c", "@"]
    step = {"phase": "look", "argv": [*words, "--", "sh", "-c", look]}
    with Session(transport(host)) as inside:
        assert inside.call("environment.build_user")["user"] == USER
        inside.call("jobs.start", id="confined", steps=[step])
        ended = inside.call("jobs.follow", id="confined")
        log = inside.call("jobs.log", id="confined")["text"].splitlines()
    assert ended["state"] == "failed"
    assert log[1] == USER and int(log[2]) < 9
    assert "Permission denied" in log[3] and len(log) == 4


def test_a_host_that_forbids_it(tmp_path: Path) -> None:
    poor = 'exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$@"'
    with start(poor, tmp_path / "root") as session:
        found = session.call("environment.build_user")
        assert (found["user"], found["agent"]) == (None, "root")
        assert "does not let us confine: unshare" in found["why"]
        with pytest.raises(RemoteError, match="a build cannot run as nobody") as refused:
            session.call("environment.build_user", user="nobody")
        assert refused.value.kind == "not-confined"
        assert session.call("environment.build_user", user="root")["why"] == "build.user is root"
        with pytest.raises(RemoteError, match="there is no such user"):
            session.call("environment.build_user", user="no-such-user-here")
