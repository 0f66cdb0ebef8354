"""The README's first command on a machine that has nothing: a minimal Debian 12, made for it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from uv import find_uv_bin

from tests.hosts.lab.ports import free_port

# No server is shared with the others: it runs beside them.
pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.xdist_group("minimal Debian")]

REPOSITORY = Path(__file__).parents[2]
MIRROR = "http://deb.debian.org/debian"
LEFT_OUT = (".git", ".venv", ".*_cache", ".hypothesis", "__pycache__")
LIMIT = 1800
"""Seconds for one of its commands; one that takes longer hangs."""
ENTER = """\
set -e
mount --bind "$1" "$1"
cd "$1"; shift
mount -t proc proc proc
mount --rbind /dev dev
for place in "$@"; do
    [ -d "$place" ] && mkdir -p ".$place" || install -D /dev/null ".$place"
    mount --rbind "$place" ".$place"
done
exec chroot . sh -c 'cd /srv/deployctl && sh -ex'
"""


class MinimalDebian:
    """A root file system to run scripts in: processes of their own, this machine's network."""

    def __init__(self, root: Path) -> None:
        self.root = root
        ignored = shutil.ignore_patterns(*LEFT_OUT)
        shutil.copytree(REPOSITORY, root / "srv/deployctl", ignore=ignored, dirs_exist_ok=True)
        # How this machine reaches others: what is fetched comes the same way.
        for name in ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt"):
            shutil.copyfile(name, root / name[1:])
        settings = said("apt-config", "dump").splitlines()
        acquiring = [line for line in settings if line.startswith("Acquire::")]
        (root / "etc/apt/apt.conf.d/90machine").write_text("\n".join(acquiring) + "\n")
        (root / "etc/pip.conf").write_text(f"[global]\n{pip_settings()}")
        cache = said(find_uv_bin(), "cache", "dir").strip()
        (root / "etc/uv").mkdir(exist_ok=True)
        (root / "etc/uv/uv.toml").write_text(f'cache-dir = "{cache}"\n')
        named = re.findall(r"(?:file://|(?<=[\s=]))(/\S+)", pip_settings())
        # The files of an index usually lie beside its pages.
        offered = [place.removesuffix("/").removesuffix("/simple") for place in named]
        self.shared = [place for place in {cache, *offered} if Path(place).exists()]

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script in the project's folder; whatever it started ends with it."""
        unshared = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork"]
        return subprocess.run(
            [*unshared, "--kill-child", "sh", "-c", ENTER, "sh", self.root, *self.shared],
            input=script,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"},
        )


def said(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def pip_settings() -> str:
    """This machine's configuration of pip, from its files and its environment, as a section."""
    found = re.findall(
        r"^(?:global|:env:)\.([\w-]+)='(.*)'$",
        said(sys.executable, "-m", "pip", "config", "list"),
        re.M,
    )
    return "".join(f"{name} = {value}\n" for name, value in dict(found).items())


def mirror() -> str:
    """Where this machine's own packages of Debian 12 come from."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Codename: bookworm"]
    return next(iter(said(*asked).split()), MIRROR)


@pytest.fixture(scope="module")
def minimal() -> Iterator[MinimalDebian]:
    """debootstrap's minbase with what a clone of the repository takes, and no more."""
    if shutil.which("debootstrap", path="/usr/sbin:/usr/bin") is None:
        pytest.fail("debootstrap is missing: run scripts/packages slow")
    # Not in a /tmp that may be mounted without devices.
    with TemporaryDirectory(prefix="deployctl-minimal-", dir="/var/tmp") as folder:
        root = Path(folder) / "root"
        command = ["debootstrap", "--variant=minbase", "--include=ca-certificates,git,python3"]
        done = subprocess.run(
            [*command, "bookworm", root, mirror()], capture_output=True, text=True, timeout=LIMIT
        )
        assert done.returncode == 0, done.stdout[-2000:]
        yield MinimalDebian(root)


def test_the_demo_in_one_command(minimal: MinimalDebian) -> None:
    """Without root it says what to install and fetches nothing; with it, it brings that."""
    as_nobody = "chown -R nobody . && setpriv --reuid nobody --clear-groups scripts/demo"
    refused = minimal.run(as_nobody)
    assert refused.returncode == 1
    wanted = "install them: sudo apt-get install libnuma1 python3-venv"
    assert refused.stderr.splitlines()[-1].endswith(wanted)
    assert not (minimal.root / "srv/deployctl/.venv").exists()

    profile = f"--profile demo --set serve.port={free_port()}"
    serving = (
        f"chown -R root . && scripts/demo {profile.removeprefix('--profile demo ')}\n"
        f".venv/bin/deployctl status {profile}\n"
        f".venv/bin/deployctl down {profile}\n"
    )
    deployed = minimal.run(serving)
    assert deployed.returncode == 0, f"{deployed.stdout[-3000:]}\n{deployed.stderr[-3000:]}"
    assert "demo: deployed" in deployed.stdout + deployed.stderr

    lacking = minimal.run(
        f"dpkg --remove --force-depends libnuma1\n.venv/bin/deployctl plan {profile}\n"
    )
    told = lacking.stdout + lacking.stderr
    assert "libnuma.so.1 is missing" in told and "install libnuma1 (Debian, Ubuntu)" in told
