"""What a connection leads through, where it ends."""

from __future__ import annotations

import paramiko

from deployctl.hosts.hops import JumpChannel


class Gone(paramiko.Channel):
    """One of a jump host's connection that ends at the same moment: its last word finds no way."""

    def close(self) -> None:
        raise EOFError


def test_the_end_of_a_jump_hosts_connection_is_no_error_of_the_one_behind_it() -> None:
    channel = JumpChannel(Gone(7))
    channel.close()
    assert channel.get_id() == 7
