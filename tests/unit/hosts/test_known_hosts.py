from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from deployctl.hosts.known_hosts import (
    KnownKey,
    by_hand,
    judge,
    name_of,
    preferred_types,
    read_found,
)
from deployctl.hosts.ssh_config import Endpoint

ED = KnownKey("/k", 1, False, "ssh-ed25519", b"one")
RSA = KnownKey("/k", 2, False, "ssh-rsa", b"two")


@pytest.mark.parametrize(
    ("known", "verdict"),
    [
        ([], "new"),
        ([ED], "known"),
        ([RSA], "other-type"),
        ([replace(ED, data=b"else")], "changed"),
        ([replace(ED, data=b"else"), ED], "known"),
        ([replace(ED, revoked=True), ED], "revoked"),
        ([replace(ED, revoked=True, data=b"else")], "new"),
        ([RSA, replace(ED, data=b"else")], "changed"),
    ],
)
def test_what_known_hosts_says_of_a_key(known: list[KnownKey], verdict: str) -> None:
    assert judge(known, "ssh-ed25519", b"one")[0] == verdict


def test_the_line_that_decided_is_named() -> None:
    assert judge([RSA, replace(ED, data=b"else", line=7)], "ssh-ed25519", b"one")[1] == replace(
        ED, data=b"else", line=7
    )


def test_the_port_belongs_to_the_name() -> None:
    endpoint = Endpoint("a", "h", 22, "me", known_as="h")
    assert name_of(endpoint) == "h"
    assert name_of(replace(endpoint, port=2222)) == "[h]:2222"


def test_the_advice_names_the_file_that_is_read() -> None:
    endpoint = Endpoint("a", "h", 22, "me", known_as="h", known_hosts=("/my keys/known", "/g"))
    assert by_hand(endpoint) == "ssh -p 22 -o 'UserKnownHostsFile=/my keys/known' me@h"
    far = replace(endpoint, known_hosts=("/k",), known_as="alias", jumps=("one", "two"), port=2222)
    assert by_hand(far) == (
        "ssh -p 2222 -o UserKnownHostsFile=/k -o HostKeyAlias=alias -J one,two me@h"
    )


def test_ssh_keygens_output() -> None:
    key = base64.b64encode(b"one").decode()
    text = (
        "# Host h found: line 3 \n"
        f"|1|abc=|def= ssh-ed25519 {key} a comment\n"
        "# Host h found: line 5 REVOKED\n"
        f"@revoked * ssh-ed25519 {key}\n"
        "# Host h found: line 6 CA\n"
        f"@cert-authority * ssh-ed25519 {key}\n"
        "# Host h found: line 8 \n"
        "h ssh-ed25519 not*base64\n"
    )
    assert list(read_found("/k", text)) == [
        KnownKey("/k", 3, False, "ssh-ed25519", b"one"),
        KnownKey("/k", 5, True, "ssh-ed25519", b"one"),
    ]


def test_a_server_is_asked_for_the_key_that_is_known() -> None:
    offered = ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256", "ssh-rsa")
    assert preferred_types([RSA], offered) == (
        "rsa-sha2-512",
        "rsa-sha2-256",
        "ssh-rsa",
        "ssh-ed25519",
        "ecdsa-sha2-nistp256",
    )
    assert preferred_types([], offered) == offered
    assert preferred_types([replace(RSA, revoked=True)], offered) == offered
