from __future__ import annotations

import base64
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from deployctl.agent.core.interface import AgentError, Call
from deployctl.agent.network import network
from deployctl.agent.network.relaying import RELAY_WINDOW
from tests.hosts.lab.ports import free_port


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return Call(str(tmp_path), lambda event: None)


class TestListener:
    """At ports of their own: one that the kernel gives here may be somebody else's as well, at
    another address."""

    @pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::"])
    def test_who_listens(self, call: Call, address: str) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        if ":" in address and not Path("/proc/net/if_inet6").exists():
            pytest.skip("no IPv6 here")
        with socket.create_server((address, free_port()), family=family) as listener:
            found = network.listener(call, listener.getsockname()[1])
        assert found["listening"] is True and found["unknown"] is None
        assert found["addresses"] == [address]
        assert [holder["pid"] for holder in found["holders"]] == [os.getpid()]

    def test_nobody(self, call: Call) -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", free_port()))
            found = network.listener(call, bound.getsockname()[1])
        assert found["listening"] is False and found["holders"] == []
        assert found["unknown"] is None

    def test_everyone_who_holds_the_socket(self, call: Call) -> None:
        with socket.create_server(("127.0.0.1", free_port())) as listener:
            child = subprocess.Popen(
                [sys.executable, "-c", "input()"],
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
            )
            try:
                port = listener.getsockname()[1]
                pids = {h["pid"] for h in network.listener(call, port)["holders"]}
                assert pids == {os.getpid(), child.pid}
            finally:
                child.communicate(b"\n")

    def test_a_holder_that_cannot_be_seen_is_unknown(
        self, call: Call, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(path: str) -> list[str]:
            if path.endswith("/fd"):
                raise PermissionError(path)
            return real(path)

        real: Callable[[str], list[str]] = os.listdir
        with socket.create_server(("127.0.0.1", free_port())) as listener:
            monkeypatch.setattr(os, "listdir", refuse)
            found = network.listener(call, listener.getsockname()[1])
        assert found["listening"] is True and found["holders"] == []
        assert "cannot be seen" in str(found["unknown"])

    def test_tables_that_cannot_be_read_are_unknown(
        self, call: Call, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(path: str, **options: object) -> None:
            raise PermissionError(13, "denied", path)

        monkeypatch.setattr("builtins.open", refuse)
        with pytest.raises(AgentError) as caught:
            network.listener(call, 1)
        assert caught.value.kind == "unknown"


class TestPortsOfOutgoingConnections:
    @pytest.fixture(autouse=True)
    def settings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "ip_local_port_range").write_text("32768\t60999\n")
        (tmp_path / "ip_local_reserved_ports").write_text("40000,50000-50010\n")
        monkeypatch.setattr(network, "SETTINGS", str(tmp_path))

    @pytest.mark.parametrize("port", [32768, 40001, 49999, 50011, 60999])
    def test_of_the_range(self, call: Call, port: int) -> None:
        assert network.listener(call, port)["outgoing"] == [32768, 60999]

    @pytest.mark.parametrize("port", [32767, 61000, 40000, 50000, 50010])
    def test_outside_of_it_or_reserved(self, call: Call, port: int) -> None:
        assert network.listener(call, port)["outgoing"] is None

    def test_nothing_reserved(self, call: Call, tmp_path: Path) -> None:
        (tmp_path / "ip_local_reserved_ports").write_text("\n")
        assert network.listener(call, 40000)["outgoing"] == [32768, 60999]

    def test_a_kernel_that_does_not_say(self, call: Call, tmp_path: Path) -> None:
        (tmp_path / "ip_local_port_range").unlink()
        assert network.listener(call, 40000)["outgoing"] is None

    def test_as_this_kernel_writes_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.undo()
        first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
        assert network.outgoing_range(first - 1) is None
        assert network.outgoing_range(last + 1) is None


class RawServer:
    """Answers each connection with `answer(connection)`; keeps what was asked."""

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._answer = answer
        self.asked: list[bytes] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                self.asked.append(_request(connection))
                self._answer(connection)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()


def _request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _received(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    while length is not None and len(body) < int(length[1]):
        body += _received(connection)
    return head + b"\r\n\r\n" + body


def _received(connection: socket.socket) -> bytes:
    """More of a request; ConnectionError where whoever asked went away before it was whole."""
    data = connection.recv(65536)
    if not data:
        raise ConnectionError("the client went away")
    return data


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[socket.socket], None]], RawServer]]:
    servers: list[RawServer] = []

    def start(answer: Callable[[socket.socket], None]) -> RawServer:
        servers.append(RawServer(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def respond(text: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(text)


def drip(connection: socket.socket) -> None:
    """Until whoever asked has gone away."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        connection.sendall(b"x")
        time.sleep(0.05)


class TestHttp:
    def ask(self, call: Call, server: RawServer, path: str = "/", **more: Any) -> Any:
        url = f"http://127.0.0.1:{server.port}{path}"
        return network.http(call, more.pop("method", "GET"), url, **{"timeout": 60.0, **more})

    def test_an_answer(self, call: Call, serve: Any) -> None:
        server = serve(respond(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\xc3\xa9!"))
        began = time.monotonic()
        found = self.ask(
            call, server, "/a?b=c", method="POST", headers={"X-A": "1"}, body='{"é": 1}'
        )
        seconds = time.monotonic() - began
        assert (found["status"], found["body"], found["error"]) == (200, "é!", None)
        assert 0 <= found["seconds"] <= seconds + 0.0001
        asked = server.asked[0]
        assert asked.startswith(b"POST /a?b=c HTTP/1.1\r\n") and b"X-A: 1" in asked
        assert asked.endswith('{"é": 1}'.encode())

    @pytest.mark.parametrize("status", [404, 500, 401])
    def test_an_error_is_an_answer(self, call: Call, serve: Any, status: int) -> None:
        server = serve(respond(b"HTTP/1.0 %d No\r\n\r\nwhy" % status))
        found = self.ask(call, server)
        assert (found["status"], found["body"]) == (status, "why")

    def test_a_redirect_is_not_followed(self, call: Call, serve: Any) -> None:
        server = serve(respond(b"HTTP/1.0 302 Found\r\nLocation: http://example.com/\r\n\r\n"))
        assert self.ask(call, server)["status"] == 302
        assert len(server.asked) == 1

    def test_no_proxy(self, call: Call, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        server = serve(respond(b"HTTP/1.0 200 OK\r\n\r\n"))
        assert self.ask(call, server)["status"] == 200

    def test_a_long_body_is_cut(self, call: Call, serve: Any) -> None:
        server = serve(respond(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 1_000_000))
        found = self.ask(call, server)
        assert found["status"] == 200 and len(found["body"]) == 64 * 1024

    @pytest.mark.parametrize("answer", [drip, lambda connection: connection.recv(1)])
    def test_the_time_limit_is_on_the_whole(self, call: Call, serve: Any, answer: Any) -> None:
        server = serve(answer)
        found = self.ask(call, server, timeout=0.4)
        assert found["status"] is None and "no complete answer within 0.4 s" in found["error"]
        assert found["seconds"] >= 0.3, "it was waited for"

    @pytest.mark.parametrize("text", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"])
    def test_what_is_no_http(self, call: Call, serve: Any, text: bytes) -> None:
        found = self.ask(call, serve(respond(text)))
        assert found["status"] is None and found["error"]

    def test_nobody_there(self, call: Call) -> None:
        found = network.http(call, "GET", "http://127.0.0.1:1/")
        assert found["status"] is None and "refused" in (found["error"] or "")

    @pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "file:///etc/passwd", "http://"])
    def test_no_other_schemes(self, call: Call, url: str) -> None:
        with pytest.raises(AgentError) as caught:
            network.http(call, "GET", url)
        assert caught.value.kind == "bad-arguments"


class TestConnect:
    def test_half_closed_connections(self, tmp_path: Path) -> None:
        # The server answers only after our end; its end comes last.
        events: list[dict[str, Any]] = []
        call = Call(str(tmp_path), events.append)
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def serve() -> None:
                connection, _ = listener.accept()
                with connection:
                    data = b""
                    while piece := connection.recv(100):
                        data += piece
                    connection.sendall(data[::-1])

            serving = threading.Thread(target=serve)
            serving.start()
            call.inbox.put({"data": base64.b64encode(b"abc").decode()})
            call.inbox.put({"end": True})
            result = network.connect(call, "127.0.0.1", listener.getsockname()[1])
            serving.join()
        assert result == {"sent": 3, "received": 3}
        assert events[0] == {"connected": True} and {"taken": 3} in events
        assert {"data": base64.b64encode(b"cba").decode()} in events
        assert events[-1] == {"end": True}

    def test_it_does_not_run_ahead_of_a_slow_reader(self, tmp_path: Path) -> None:
        got = 0
        reached = threading.Event()

        def hear(event: dict[str, Any]) -> None:
            nonlocal got
            got += len(base64.b64decode(event.get("data", "")))
            if got >= RELAY_WINDOW:
                reached.set()

        call = Call(str(tmp_path), hear)
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def serve() -> None:
                connection, _ = listener.accept()
                with connection:
                    try:
                        connection.sendall(bytes(30_000_000))
                    except OSError:
                        pass

            serving = threading.Thread(target=serve)
            serving.start()
            port = listener.getsockname()[1]
            relaying = threading.Thread(target=network.connect, args=(call, "127.0.0.1", port))
            relaying.start()
            assert reached.wait(60)
            time.sleep(0.2)
            assert got <= RELAY_WINDOW + 32768
            call.cancelled.set()
            call.inbox.put(None)
            relaying.join(timeout=60)
            assert not relaying.is_alive()
            serving.join()

    def test_nobody_there(self, call: Call) -> None:
        with pytest.raises(ConnectionRefusedError):
            network.connect(call, "127.0.0.1", 1)
