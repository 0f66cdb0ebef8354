"""The way of pieces between two hosts: encrypted TCP, open to those with this shipment's key.

Both sides show the same self-signed certificate, made for one shipment, and trust no other.
"""

from __future__ import annotations

import os
import socket
import ssl
from typing import BinaryIO, cast

from ..wire.frames import BrokenStream

KEY = "DEPLOYCTL_SHIPMENT_KEY"
"""The environment variable with the certificate and its private key, PEM."""
CONNECT = 10.0
"""Seconds until a host that does not answer counts as not reached."""
WAIT = 60.0
"""Seconds for somebody to connect, and between two signs of life on a connection."""
BUFFER = 1 << 20


def context(pem: str, server: bool) -> ssl.SSLContext:
    """What both sides agree on."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if server:
        # A ticket is not read: unread, it would turn the end of the connection into a reset.
        made.num_tickets = 0
    made.load_verify_locations(cadata=pem[pem.index("-----BEGIN CERTIFICATE") :])
    # The library takes files alone; this one has no name and ends with us.
    handle = os.memfd_create("key")
    try:
        os.write(handle, pem.encode("ascii"))
        made.load_cert_chain("/proc/self/fd/%d" % handle)
    finally:
        os.close(handle)
    return made


def listen(port: int) -> socket.socket:
    """Wait for one connection on this port, any free one where it is 0; IPv6 where there is."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    made = socket.create_server(
        ("", port), family=family, dualstack_ipv6=family == socket.AF_INET6, backlog=4
    )
    made.settimeout(WAIT)
    return made


def accept(listener: socket.socket, pem: str) -> BinaryIO:
    """The stream of the host before us; others that knock are turned away."""
    agreed = context(pem, server=True)
    while True:
        try:
            connection, place = listener.accept()
        except socket.timeout:
            raise BrokenStream("no connection within %d s" % WAIT) from None
        connection.settimeout(WAIT)
        try:
            secured = agreed.wrap_socket(connection, server_side=True)
        except OSError as error:
            print("turned away %s: %s" % (place[0], error), flush=True)
            connection.close()
            continue
        listener.close()
        return cast(BinaryIO, secured.makefile("rb", buffering=BUFFER))


def connect(address: str, port: int, pem: str) -> ssl.SSLSocket:
    """The stream to the host after us; raises `BrokenStream` where it cannot be reached."""
    try:
        connection = socket.create_connection((address, port), timeout=CONNECT)
        connection.settimeout(WAIT)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return context(pem, server=False).wrap_socket(connection)
    except OSError as error:
        raise BrokenStream("%s port %d: %s" % (address, port, error)) from error


def end(connection: ssl.SSLSocket) -> None:
    """Wait until the host after us has taken everything and closes; raises OSError."""
    with connection:
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1024):
            pass
