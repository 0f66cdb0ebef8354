"""Runs a command of a build as a user without rights, out of sight of the rest of the host.

A PID namespace ends with the command whatever it started; no set-uid program gives it privileges
(prctl(2), PR_SET_NO_NEW_PRIVS).
"""

from __future__ import annotations

import contextlib
import os
import platform
import pwd
import shutil
import signal
import subprocess
import time
from typing import Iterator, List, Sequence

from ..core import trees
from ..core.atomic_files import write_text
from ..core.interface import AgentError
from . import namespaces
from .namespaces import holds_covered
from .takeover import give, take_back

DEFAULT_USER = "deployctl-build"
HIDDEN_VARIABLES = ("SSH_AUTH_SOCK", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HF_HOME")
PATH_VARIABLES = (
    *("PIP_CONFIG_FILE", "PIP_CERT", "PIP_FIND_LINKS", "UV_CONFIG_FILE", "UV_FIND_LINKS"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO"),
    *("CC", "CXX", "CUDACXX", "CUDA_HOME", "CUDA_PATH"),
)
"""Variables that name what a build is to read."""
FRESH = ("dist", "home", "tmp")
_PDEATHSIG, _NO_NEW_PRIVS = 1, 38
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_JOIN_SESSION_KEYRING = 1
_MAKERS = "/usr/sbin:/sbin:/usr/bin:/bin"


def confined(user: str, work: str, environment: str, cache: str, *rest: str) -> int:
    """A chore: run the command after `--`. Before it: folders to hide; after a `+`, to show.

    The user owns `cache`, `environment` (empty for none) and, below `work`, `source` and the
    folders of `FRESH`, meanwhile; the environment is checked and taken back when it has ended.
    """
    words, argv = rest[: rest.index("--")], rest[rest.index("--") + 1 :]
    split = words.index("+") if "+" in words else len(words)
    who = account(user)
    if who.pw_uid == 0:
        raise AgentError("no-user", f"{user} is root: a build cannot be confined as root")
    own = _places(work, cache)
    if environment:
        own.append(environment)
    variables = [os.environ.get(name, "") for name in PATH_VARIABLES]
    named = [path for path in (*argv, *variables) if _is_place(path)]
    python = [os.path.join(environment, "bin", "python")] if environment else []
    shown = [*own, cache, *words[split + 1 :], *named, *_installations([*python, argv[0]])]
    found = namespaces.view(words[:split], shown)
    with namespaces.refusals():
        namespaces.leave(namespaces.NEWNS | namespaces.NEWIPC | namespaces.NEWPID)
        namespaces.arrange(found)
    for path in own:
        give(path, who.pw_uid, who.pw_gid)
    os.chown(cache, who.pw_uid, who.pw_gid)
    try:
        return _run(who, argv, os.path.join(work, "source"))
    finally:
        if environment:
            take_back(environment, who.pw_uid)


def probe() -> int:
    """A chore: 0 where this host lets us confine; otherwise the reason is its error."""
    with namespaces.refusals():
        namespaces.leave(namespaces.NEWNS | namespaces.NEWIPC | namespaces.NEWPID)
        namespaces.arrange(namespaces.view([], []))
    return 0


def account(user: str) -> pwd.struct_passwd:
    """A user of this host; the default one is made where it is missing. Error `no-user`."""
    why = "there is no such user"
    for attempt in range(6):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(user)
        if user != DEFAULT_USER:
            break
        # The user database may be locked by another job, or by a person at work.
        time.sleep(attempt * 0.5)
        why = _make(user)
    raise AgentError("no-user", f"no user {user} on this host: {why}")


def maker() -> List[str]:
    """The command that makes a system user, without its name; [] where there is none."""
    useradd, adduser = (shutil.which(name, path=_MAKERS) for name in ("useradd", "adduser"))
    shell = shutil.which("nologin", path=_MAKERS) or "/bin/false"
    if useradd:
        return [useradd, "--system", "--user-group", "--no-create-home", "--shell", shell] + [
            *("--home-dir", "/nonexistent")
        ]
    # BusyBox, as on Alpine.
    return [adduser, "-S", "-D", "-H", "-h", "/nonexistent", "-s", shell] if adduser else []


def _make(user: str) -> str:
    argv = maker()
    if not argv:
        return "neither useradd nor adduser is there"
    done = subprocess.run([*argv, user], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return (done.stderr or done.stdout).strip()


def _places(work: str, cache: str) -> List[str]:
    """The user's own folders below `work`. Those of an earlier command are gone."""
    for name in FRESH:
        trees.remove(os.path.join(work, name))
    own = [os.path.join(work, name) for name in ("source", *FRESH)]
    for path in (*own, cache):
        os.makedirs(path, exist_ok=True)
    home = os.path.join(work, "home")
    # What root has fetched is read by another user's git.
    write_text(os.path.join(home, ".gitconfig"), "[safe]\n\tdirectory = *\n")
    config = os.path.join(pwd.getpwuid(os.geteuid()).pw_dir, ".config")
    for name in ("uv/uv.toml", "pip/pip.conf"):
        # Which indexes this host uses.
        if os.path.isfile(os.path.join(config, name)):
            os.makedirs(os.path.dirname(os.path.join(home, ".config", name)))
            shutil.copyfile(os.path.join(config, name), os.path.join(home, ".config", name))
    return own


def _is_place(word: str) -> bool:
    return (
        os.path.isabs(word) and os.path.exists(word) and not holds_covered(os.path.realpath(word))
    )


def _installations(programs: Sequence[str]) -> Iterator[str]:
    """Where the Pythons of environments are installed: uv keeps them in a home."""
    for path in programs:
        while os.path.islink(path):
            path = os.path.join(os.path.dirname(path), os.readlink(path))
            yield from (os.path.dirname(os.path.dirname(p)) for p in (path, os.path.realpath(path)))


def _run(who: pwd.struct_passwd, argv: Sequence[str], folder: str) -> int:
    """The command's status. It ends with us, and what it started ends with it."""
    first = os.fork()
    if first == 0:
        status = 1
        try:
            status = _as_first(who, argv, folder)
        except BaseException as error:
            os.write(2, f"{argv[0]}: {error}\n".encode("utf-8", "surrogateescape"))
        finally:
            os._exit(status)
    return _status(os.waitpid(first, 0)[1])


def _as_first(who: pwd.struct_passwd, argv: Sequence[str], folder: str) -> int:
    """The first process of a PID namespace: the kernel ends all others when it ends."""
    namespaces.system_call("prctl", "pdeathsig", _PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    namespaces.system_call("prctl", "no_new_privs", _NO_NEW_PRIVS, 1, 0, 0, 0)
    namespaces.own_processes()
    _leave_keys()
    env = {name: value for name, value in os.environ.items() if name not in HIDDEN_VARIABLES}
    env.update(USER=who.pw_name, LOGNAME=who.pw_name, SHELL="/bin/sh")
    child = subprocess.Popen(
        list(argv),
        env=env,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        user=who.pw_uid,
        group=who.pw_gid,
        extra_groups=[],
    )
    while True:
        # Orphans of the namespace are ours to reap.
        pid, status = os.wait()
        if pid == child.pid:
            return _status(status)


def _leave_keys() -> None:
    """A session keyring of its own: whoever has root's can read what is in it (keyrings(7))."""
    number = _KEYCTL.get(platform.machine())
    if number is not None:
        # A kernel without keyrings has none to leave.
        with contextlib.suppress(OSError):
            namespaces.system_call("syscall", "keyring", number, _JOIN_SESSION_KEYRING, None)


def _status(status: int) -> int:
    """As a shell gives it: 128 and the number of a signal."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
