"""What it takes to bring one folder to several hosts, beside `scp` of the same to each.

    python bench/shipping.py [--hosts 5] [--megabytes 2000] [--repeats 3]

Every host is an sshd of its own on this machine, with a root of its own; the folder is of noise, as
wheels and weights are. Compared are scp to one host after the other, scp to all at once, and a
shipment (checksums and all), in turn; medians. Then a shipment is cut in the middle, at all hosts,
one byte of what has come to the first host is changed, and the rest is sent: only what is missing
travels, the damaged piece among it. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from deployctl.agent.shipping.pieces import PIECE
from deployctl.config.host import HostSettings
from deployctl.hosts.session import Session
from deployctl.hosts.shipping.parties import Party, Receiver, Tell
from deployctl.hosts.shipping.shipment import Shipment
from deployctl.hosts.transports import transport
from tests.hosts.lab import processes
from tests.hosts.lab.sshd import Sshd

FOLDER = "@/models/bench"
PART = 256 << 20


class Fleet:
    """The hosts, and the folder on this machine."""

    def __init__(self, directory: Path, hosts: int, megabytes: int) -> None:
        self.directory = directory
        self.size = megabytes * 1_000_000
        self.lost: list[Receiver] = []
        self.sshds = []
        for number in range(hosts):
            (directory / f"host{number}").mkdir()
            own = {"Subsystem": "sftp internal-sftp"}
            self.sshds.append(Sshd(directory / f"host{number}", own))
            self.sshds[-1].start()
        (directory / "source").mkdir(mode=0o700)
        self.folder = directory / "source" / "models" / "bench"
        self.folder.mkdir(parents=True)
        left = megabytes * 1_000_000
        for number in range(-(-left // PART)):
            with (self.folder / f"part{number}").open("wb") as file:
                for _ in range(0, min(left, PART), 1 << 20):
                    file.write(os.urandom(1 << 20))
            left -= PART

    @contextmanager
    def party(self, settings: dict[str, object], root: Path) -> Iterator[Party]:
        host = HostSettings.model_validate({**settings, "root": str(root)})
        with Session(transport(host), root=host.root) as session:
            yield Party(host, session, "127.0.0.1")

    def ship(self, way: str) -> None:
        receivers = self.sent(way)
        assert [one.failure for one in receivers] == [None] * len(receivers)

    def sent(self, way: str, tell: Tell = lambda receiver, count: None) -> list[Receiver]:
        with ExitStack() as stack:
            here = {"name": "here", "local": True}
            source = stack.enter_context(self.party(here, self.directory / "source"))
            receivers = [
                Receiver(
                    stack.enter_context(self.party(server.host_settings(name), self.root(name))),
                    FOLDER,
                )
                for number, server in enumerate(self.sshds)
                for name in [f"host{number}"]
            ]
            Shipment(source, FOLDER, receivers, way, tell=tell).run()
            return receivers

    def cut_and_resumed(self, way: str) -> dict[str, object]:
        """What came until all connections were killed, and what the rest took; one byte at the
        first host is another one when it begins."""
        half = self.size * len(self.sshds) // 2
        came = 0

        def cut(receiver: Receiver, count: int) -> None:
            nonlocal came
            came += count
            if came >= half:
                for server in self.sshds:
                    for pid in server.sessions():
                        processes.send(pid, signal.SIGKILL)

        before = seconds(lambda: self.lost.extend(self.sent(way, cut)))
        assert all(one.failure is not None for one in self.lost), "it was not cut"
        part = next(self.root("host0").glob("models/bench.incoming/part*"))
        with part.open("r+b") as file:
            byte = file.read(1)
            file.seek(0)
            file.write(bytes([byte[0] ^ 1]))
        again: list[Receiver] = []
        after = seconds(lambda: again.extend(self.sent(way)))
        assert [one.failure for one in again] == [None] * len(again)
        whole = (self.folder / part.name).read_bytes()
        assert (self.root("host0") / "models/bench" / part.name).read_bytes() == whole
        return {
            "way": way,
            "until_cut": round(before, 2),
            "rest": round(after, 2),
            "pieces_kept": [one.kept for one in again],
            "pieces": -(-self.size // PIECE),
        }

    def root(self, name: str) -> Path:
        return self.directory / name / "root"

    def scp(self, numbers: Sequence[int]) -> list[subprocess.Popen[bytes]]:
        started = []
        for number in numbers:
            server, target = self.sshds[number], self.directory / f"host{number}" / "scp"
            target.mkdir(exist_ok=True)
            given = server.settings()
            argv = ["scp", "-q", "-r", "-F", given["config_file"], "-P", str(server.port)]
            argv += ["-i", given["identity_file"], "-o", f"UserKnownHostsFile={server.known_hosts}"]
            argv += [str(self.folder), f"{given['user']}@127.0.0.1:{target}"]
            started.append(subprocess.Popen(argv))
        return started

    def one_by_one(self) -> None:
        for number in range(len(self.sshds)):
            ended(self.scp([number]))

    def at_once(self) -> None:
        ended(self.scp(range(len(self.sshds))))

    def clear(self) -> None:
        """Only the source is left, and its checksums are not known."""
        shutil.rmtree(self.directory / "source" / "shipping", ignore_errors=True)
        for number in range(len(self.sshds)):
            for place in ("scp", "root/models"):
                shutil.rmtree(self.directory / f"host{number}" / place, ignore_errors=True)
        os.sync()


def ended(started: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in started:
        assert process.wait() == 0, process.args


def seconds(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shipping-") as folder:
        fleet = Fleet(Path(folder), given.hosts, given.megabytes)
        ways: dict[str, Callable[[], None]] = {
            "scp, one after the other": fleet.one_by_one,
            "scp, all at once": fleet.at_once,
            "shipment, through the controller": lambda: fleet.ship("controller"),
            "shipment, from host to host": lambda: fleet.ship("relay"),
        }
        try:
            took: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(given.repeats):
                for name, work in ways.items():
                    fleet.clear()
                    took[name].append(seconds(work))
            fleet.clear()
            resumed = fleet.cut_and_resumed("controller")
        finally:
            for server in fleet.sshds:
                server.stop()
    medians = {name: statistics.median(values) for name, values in took.items()}
    base = medians["scp, one after the other"]
    print(
        json.dumps(
            {
                "hosts": given.hosts,
                "megabytes": given.megabytes,
                "load": os.getloadavg()[0],
                "seconds": {name: round(value, 2) for name, value in medians.items()},
                "cut_in_the_middle": resumed,
                "ratio": {name: round(value / base, 2) for name, value in medians.items()},
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
