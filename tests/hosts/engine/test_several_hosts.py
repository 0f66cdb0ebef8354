"""Several hosts in one profile, one of them not to be reached: the others are told all the same."""

from __future__ import annotations

import json

import pytest

from tests.hosts.served.host import LIMIT, ServedHost


@pytest.fixture
def paired(served: ServedHost) -> ServedHost:
    """The same host, behind one that nobody answers for."""
    text = served.profile_file.read_text("utf-8")
    gone = "hosts: [{name: gone, ssh: {address: 127.0.0.1, port: 1}}, "
    served.profile_file.write_text(text.replace("hosts: [", gone), encoding="utf-8")
    return served


def test_one_that_is_not_reached_hides_no_other(paired: ServedHost) -> None:
    record = paired.up()
    assert (record.outcome, record.exit_code) == ("failed", 4)
    assert [host.error is None for host in record.hosts] == [False, True]
    for command in ("status", "history"):
        with paired.start(command, "--json") as look:
            output, errors = look.communicate(timeout=LIMIT)
        gone, here = json.loads(output)["hosts"]
        assert look.returncode == 4, errors
        assert "gone" in gone["error"]["what"] and "error" not in here
        with paired.start(command) as look:
            output = look.output()
        assert "gone  unknown" in output and "here" in output
    with paired.start("logs", "-n", "1") as look:
        output, errors = look.communicate(timeout=LIMIT)
    assert look.returncode == 4 and "gone" in errors
    assert output.startswith("here | ") and output.count("\n") == 1
    for unit, code in (("server", 0), ("nope", 2)):
        with paired.start("logs", "--host", "here", "--unit", unit) as look:
            output, errors = look.communicate(timeout=LIMIT)
        assert look.returncode == code and ("stand-in" in output) == (code == 0)
    assert "has no unit nope on here" in errors and "its units: server" in errors
