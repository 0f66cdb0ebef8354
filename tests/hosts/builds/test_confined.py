"""Builds by a user without rights: their code reads no secret, writes nowhere else, leaves nothing
behind, and changes nothing after it has ended. Real uv builds of a real repository, as root."""

from __future__ import annotations

import ctypes
import os
import platform
import pwd
import select
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from uv import find_uv_bin

from deployctl.agent.build.confinement import DEFAULT_USER
from deployctl.agent.build.takeover import take_back
from deployctl.agent.core.interface import AgentError
from deployctl.agent.processes.processes import everyone
from tests.hosts.builds.host import BuildHost
from tests.hosts.builds.project import Project
from tests.hosts.lab import processes

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

ROOT = Path(__file__).parents[3]
SPY = """
import getpass, glob, json, os, pathlib, subprocess, sys
def attempt(what):
    try:
        return what() or True
    except BaseException as error:
        return f"{type(error).__name__}"
def read(path):
    return attempt(lambda: open(path, "rb").read().decode("utf-8", "replace"))
def write(path):
    return attempt(lambda: open(path, "a").write("x"))
found = {
    "uid": os.getuid(), "groups": os.getgroups(), "user": getpass.getuser(),
    "reads": {path: read(path) for path in @reads@},
    "lists": {path: attempt(lambda: sorted(os.listdir(path))) for path in @lists@},
    "writes": {path: write(path) for path in @writes@},
    "environment": sorted(os.environ),
    "privileges": read("/proc/self/status"),
    "processes": len(glob.glob("/proc/[0-9]*")),
}
here = pathlib.Path(__file__).parent
(here / "vllm" / "spy.py").write_text("found = " + repr(found))
# What stays behind: a process of its own session, with an open file of what is served.
argv = ["sh", "-c", "sleep 600; : @mark@"]
subprocess.Popen(argv, start_new_session=True, env={}, stdin=-3, stdout=-3, stderr=-3)
"""


@pytest.fixture
def secrets(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Files that a build has no business with: a secret under the root, a model, root's home."""
    home = Path(pwd.getpwuid(0).pw_dir) / f".deployctl-test-{os.getpid()}"
    found = {
        "secret": tmp_path / "root/profiles/other/server/secrets.json",
        "model": tmp_path / "models/config.json",
        "home": home,
    }
    for path in found.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("canary")
        path.chmod(0o644)
    yield found
    home.unlink()


def spying(project: Project, reads: list[str], writes: list[str]) -> str:
    spy = (
        SPY.replace("@mark@", str(project.folder))
        .replace("@reads@", repr(reads))
        .replace("@writes@", repr(writes))
    )
    spy = spy.replace("@lists@", repr([str(Path(path).parent) for path in reads]))
    setup = (project.folder / "setup.py").read_text()
    package = (project.folder / "vllm/__init__.py").read_text()
    # Whether it imports is asked before anything serves.
    watch = f"import os\nassert not [p for p in {reads!r} if os.access(p, os.R_OK)]\n"
    return project.commit("hostile", {"setup.py": spy + setup, "vllm/__init__.py": watch + package})


def source(project: Project) -> dict[str, Any]:
    return {
        "source": {"url": project.url, "ref": "hostile", "upstream": project.url},
        "compile_bytecode": True,
        "overrides": ["unneeded==1"],
        "user": None,
    }


def test_hostile_backend(
    builder: BuildHost, project: Project, secrets: dict[str, Path], tmp_path: Path
) -> None:
    reads = [str(path) for path in secrets.values()]
    writes = [
        str(tmp_path / "root/profiles/other/server/secrets.json"),
        str(tmp_path / "root/environments/other"),
        str(tmp_path / "root/wheels/other"),
        "/etc/deployctl-test",
        "/usr/deployctl-test",
        *(f"{place}/deployctl-test" for place in ("/tmp", "/var/tmp", "/dev/shm", "/root")),
    ]
    commit = spying(project, reads, writes)
    wanted = builder.wanted(
        source(project), model={"path": str(tmp_path / "models"), "served_name": "m"}
    )
    done = builder.up(wanted)
    assert done["build"]["commit_imported"] == commit
    assert done["build"]["user"] == DEFAULT_USER

    environment = builder.environment(done["key"])
    site = next((environment / "lib").glob("python3*")) / "site-packages"
    space: dict[str, Any] = {}
    exec((site / "vllm/spy.py").read_text(), space)
    found = space["found"]
    who = pwd.getpwnam(DEFAULT_USER)
    assert (found["uid"], found["groups"], found["user"]) == (who.pw_uid, [], DEFAULT_USER)
    assert [text for text in found["reads"].values() if "canary" in text] == []
    assert [name for name in found["lists"].values() if "config.json" in name] == []
    assert (
        "NoNewPrivs:\t1" in found["privileges"]
        and "CapEff:\t0000000000000000" in found["privileges"]
    )
    assert found["processes"] < 12
    assert not [p for p in writes if Path(p).exists() and not str(p).endswith("secrets.json")]
    assert secrets["secret"].read_text() == "canary"
    # It is the owner's alone, and nobody is left to change it.
    for path in [environment, *environment.rglob("*"), *(builder.root / "wheels").rglob("*")]:
        status = path.lstat()
        assert status.st_uid == 0, path
        assert path.is_symlink() or not status.st_mode & (stat.S_ISUID | stat.S_ISGID | 0o022)
    mark = f": {project.folder}"
    assert [one.pid for one in everyone() if mark in processes.command(one.pid)] == []
    assert builder.root.stat().st_mode & 0o777 == 0o700
    wheel = next((builder.root / "wheels").rglob("*.whl"))
    assert wheel.stat().st_nlink == 1


@pytest.mark.parametrize(
    ("made", "refused"),
    [
        ("os.symlink('/etc/passwd', here / 'left')", "leads to /etc/passwd"),
        ("os.symlink('/nowhere/yet', here / 'left')", "leads to /nowhere/yet"),
        ("os.symlink('../' * 9 + 'etc', here / 'left')", "leads to /etc"),
        ("open(here / 'left', 'w'); os.chmod(here / 'left', 0o4755)", "set-uid"),
        ("open(here / 'left', 'w'); os.chmod(here / 'left', 0o2755)", "set-gid"),
        ("os.mkfifo(here / 'left')", "not a file or folder"),
        ("import socket; socket.socket(socket.AF_UNIX).bind('left')", "not a file or folder"),
    ],
)
def test_what_is_left_is_checked(tmp_path: Path, made: str, refused: str) -> None:
    place = confined_place(tmp_path)
    code = f"import os, pathlib; here = pathlib.Path({str(place / 'environment')!r})\n"
    code += f"os.chdir(here)\n{made}\n"
    done = confine(place, code)
    assert done.returncode == 1
    assert "the build left" in done.stderr and refused in done.stderr
    assert all(path.lstat().st_uid == 0 for path in (place / "environment").rglob("*"))


def test_what_is_linked_stays_as_it_is(tmp_path: Path) -> None:
    place = confined_place(tmp_path)
    base = tmp_path / "base.py"
    base.write_text("base")
    os.link(base, place / "environment/linked.py")
    (place / "environment/roots").symlink_to("/usr/bin/env")
    linked = f"{place}/environment/linked.py"
    done = confine(
        place,
        f"import os\nopen({linked!r} + 'c', 'w').close(); os.replace({linked!r} + 'c', {linked!r})",
    )
    assert done.returncode == 0, done.stderr
    assert base.read_text() == "base" and base.stat().st_uid == 0
    done = confine(place, f"open({str(base)!r})")
    assert done.returncode == 1 and "FileNotFoundError" in done.stderr
    os.link(base, place / "environment/again.py")
    done = confine(place, f"open({f'{place}/environment/again.py'!r}, 'a')")
    assert done.returncode == 1 and "PermissionError" in done.stderr


def test_access_lists_go(tmp_path: Path) -> None:
    place = confined_place(tmp_path)
    # POSIX ACL, version 2: owner rw-, one user rwx, group r--, mask rwx, others r-- (acl(5)).
    code = f"""
import os, struct
path = {str(place / "environment")!r} + "/a"
open(path, "w").close()
rows = [(1, 6, -1), (2, 7, os.getuid()), (4, 4, -1), (16, 7, -1), (32, 4, -1)]
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *row) for row in rows)
try:
    os.setxattr(path, "system.posix_acl_access", acl)
except OSError as error:
    print("none here:", error)
os.chmod(path, 0o777)
"""
    done = confine(place, code)
    assert done.returncode == 0, done.stderr
    left = place / "environment/a"
    assert left.stat().st_mode & 0o777 == 0o755
    assert "system.posix_acl_access" not in os.listxattr(left)


def test_capabilities_go_and_are_refused(tmp_path: Path) -> None:
    left, user = tmp_path / "environment/left", 54321
    left.parent.mkdir()
    left.write_text("")
    os.chown(left, user, user)
    # vfs_cap_data, version 2: one capability, permitted (capabilities(7)).
    os.setxattr(left, "security.capability", struct.pack("<5I", 0x02000001, 1, 0, 0, 0))
    with pytest.raises(AgentError, match="has capabilities"):
        take_back(str(left.parent), user)
    assert os.listxattr(left) == [] and left.stat().st_uid == 0


def test_memory_that_others_need_is_not_taken(tmp_path: Path) -> None:
    code = "import os; s = os.statvfs('/dev/shm'); print(s.f_blocks * s.f_frsize)"
    done = confine(confined_place(tmp_path), code)
    assert int(done.stdout) == 1 << 30, done.stderr


def test_keys_of_root_are_not_reached(tmp_path: Path) -> None:
    keys = "import ctypes; print(ctypes.CDLL(None).syscall(250, 0, -3, 0))"
    if platform.machine() != "x86_64":
        pytest.skip("the numbers of system calls are x86_64's")
    # KEYCTL_GET_KEYRING_ID of KEY_SPEC_SESSION_KEYRING: another one than ours.
    ours = ctypes.CDLL(None).syscall(250, 0, -3, 0)
    done = confine(confined_place(tmp_path), keys)
    assert done.returncode == 0, done.stderr
    assert ours < 0 or int(done.stdout) != ours


def test_it_ends_with_whoever_started_it(tmp_path: Path) -> None:
    place = confined_place(tmp_path)
    code = "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)"
    code += "; print('up', flush=True); input()"
    with subprocess.Popen(
        command(place, code), stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        watched = [os.pidfd_open(int(pid)) for pid in children]
        child.kill()
    for handle in watched:
        assert select.select([handle], [], [], 60)[0]
        os.close(handle)


@pytest.mark.parametrize("user", ["nobody-has-this-name", "root"])
def test_nobody_else_is_made(tmp_path: Path, user: str) -> None:
    done = confine(confined_place(tmp_path), "", user)
    assert done.returncode == 1 and "no-user" in done.stderr


def confined_place(tmp_path: Path) -> Path:
    place = tmp_path / "root"
    for name in ("environment", "work/source", "caches"):
        (place / name).mkdir(parents=True)
    return place


def command(place: Path, code: str, user: str = DEFAULT_USER) -> list[str]:
    words = [user, place / "work", place / "environment", place / "caches/own", place]
    chore = "import sys; from deployctl.agent.build.build_tasks import main"
    chore += "; sys.exit(main(sys.argv[1:]))"
    argv = [sys.executable, "-c", chore, "confined", *words, "--", "/usr/bin/python3", "-c", code]
    return [str(word) for word in argv]


def confine(place: Path, code: str, user: str = DEFAULT_USER) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(place, code, user), capture_output=True, text=True, cwd=ROOT, timeout=120
    )


def test_a_linked_copy_and_a_checkout(builder: BuildHost, project: Project, tmp_path: Path) -> None:
    """Both at once: what is built is a checkout, into a copy of an environment."""
    base = tmp_path / "ml-env"
    uv = find_uv_bin()
    subprocess.run([uv, "venv", "-q", "--python", "3.11", base], check=True)
    install = [uv, "pip", "install", "-q", "--python", str(base / "bin/python")]
    subprocess.run([*install, "setuptools", "wheel"], check=True)
    before = builder.session.call("files.tree_digest", path=str(base))
    owners = {path: path.lstat().st_uid for path in base.rglob("*")}
    settings = {"source": {"path": str(project.folder)}, "compile_bytecode": False, "user": None}
    done = builder.up(builder.wanted({**settings, "environment": "in-place", "base": str(base)}))
    assert done["build"]["user"] == DEFAULT_USER
    assert done["build"]["commit_imported"] == project.git("rev-parse", "HEAD")
    assert builder.session.call("files.tree_digest", path=str(base)) == before
    assert {path: path.lstat().st_uid for path in base.rglob("*")} == owners
    copy = builder.environment(done["key"])
    linked = next(copy.glob("lib/python3*/site-packages/wheel/__init__.py"))
    assert linked.stat().st_nlink > 1
    assert {path.lstat().st_uid for path in copy.rglob("*")} == {0}
