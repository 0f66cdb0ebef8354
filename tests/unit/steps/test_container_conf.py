"""Container confs as people write them, against the devices of their node.

The confs of the field lie in tests/cases/field; those below are re-worded from public pages, each
named beside its case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.steps.gpus.container_conf import listing
from deployctl.steps.gpus.container_conf.conf import parse
from deployctl.steps.gpus.container_conf.findings import Judgement
from deployctl.steps.gpus.container_conf.remarks import remarks
from deployctl.steps.gpus.finding import Finding

FIELD = Path(__file__).parents[2] / "cases/field"
ALL = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
NODE = """\
crw-rw-rw- 1 root root 195,   0 Jul  1 10:00 /dev/nvidia0
crw-rw-rw- 1 root root 195, 255 Jul  1 10:00 /dev/nvidiactl
crw-rw-rw- 1 root root 511,   0 Jul  1 10:00 /dev/nvidia-uvm
crw-rw-rw- 1 root root 511,   1 Jul  1 10:00 /dev/nvidia-uvm-tools
"""
MOUNTS = "".join(
    f"lxc.mount.entry: {path} {path[1:]} none bind,optional,create=file\n" for path in ALL
)
RULES = "lxc.cgroup2.devices.allow: c 195:* rwm\nlxc.cgroup2.devices.allow: c 511:* rwm\n"


def judge(
    conf: str,
    node: str = NODE,
    cgroup: int | None = 2,
    file: str = "ct.conf",
    includes: Mapping[str, str] = MappingProxyType({}),
) -> list[Finding]:
    devices = listing.parse(node).devices
    judged = Judgement(parse(conf, file, includes.get), devices, cgroup)
    return [*judged.findings(), *remarks(judged)]


def verdicts(findings: list[Finding]) -> list[str]:
    return [finding.verdict for finding in findings]


def said(findings: list[Finding], verdict: str) -> str:
    return "\n".join(f"{f.where} {f.say}" for f in findings if f.verdict == verdict)


def field(case: str, name: str) -> list[Finding]:
    folder = next(FIELD.glob(f"{case}-*"))
    return judge((folder / name).read_text(), (folder / "node.txt").read_text())


# -- the field ------------------------------------------------------------------------------------


def test_path_among_other_options() -> None:
    found = field("10", "path.conf")
    assert verdicts(found) == ["ok"] * 4
    assert [f.where for f in found] == [f"ct.conf:{line}" for line in (3, 4, 5, 6)]


@pytest.mark.parametrize(("name", "first"), [("igpu.conf", 1), ("nothing.conf", 0)])
def test_advice_is_one_set_of_free_entries(name: str, first: int) -> None:
    found = field("10", name)
    assert "ok" not in verdicts(found)
    assert [f.lines for f in found] == [(f"dev{first + n}: {path}",) for n, path in enumerate(ALL)]


def test_a_target_with_a_slash_is_ignored_by_lxc() -> None:
    found = field("12", "absolute.conf")
    assert verdicts(found)[:4] == ["failed"] * 4
    assert all("begins with a slash" in f.say for f in found[:4])
    assert found[0].where == "ct.conf:5" and found[0].lines == ("dev0: /dev/nvidia0",)
    assert "lines 5, 6, 7, 8: remove these" in found[4].say


def test_nodes_that_were_made_elsewhere_are_judged_inside() -> None:
    found = field("12", "mknod.conf")
    assert verdicts(found) == ["unknown"] * 4
    assert "/lxc/129/devices/nvidia0" in found[0].say and "look inside" in found[0].say


def test_an_empty_entry_clears_and_is_no_traceback() -> None:
    assert verdicts(field("12", "empty-allow.conf"))[:4] == ["ok", "failed", "failed", "warning"]


def test_an_empty_allow_clears_those_before_it() -> None:
    found = field("12", "clear.conf")
    assert verdicts(found)[:4] == ["failed"] * 4
    assert "remove line 8" in found[0].say


def test_a_deny_after_an_allow_and_a_device_that_can_only_be_read() -> None:
    found = field("12", "deny.conf")
    assert verdicts(found)[:4] == ["failed", "ok", "failed", "failed"]
    assert "denies /dev/nvidia0 (195:0): remove line 4" in found[0].say
    assert "for 'r' alone" in found[2].say


# -- public pages ---------------------------------------------------------------------------------


def test_v1_keys_on_a_v2_node() -> None:
    """A homelab page of 2023, node with 506 for uvm; Proxmox 6's keys on 7."""
    conf = MOUNTS + RULES.replace("cgroup2", "cgroup")
    found = judge(conf)
    assert verdicts(found)[:4] == ["failed"] * 4
    assert "lxc.cgroup.devices.allow has no effect under cgroup v2, use lxc.cgroup2" in said(
        found, "warning"
    )
    assert set(verdicts(judge(conf, cgroup=1))) == {"ok"}
    unknown = judge(conf, cgroup=None)
    assert set(verdicts(unknown)) == {"unknown"} and "cgroup v1 alone" in unknown[0].say


def test_v2_keys_on_a_v1_node() -> None:
    found = judge(MOUNTS + RULES, cgroup=1)
    assert verdicts(found)[:4] == ["failed"] * 4
    assert "no effect under cgroup v1, use lxc.cgroup.devices.allow" in said(found, "warning")


def test_both_versions_side_by_side() -> None:
    """An installer script writes every rule twice, for the majors of two boots."""
    both = RULES + RULES.replace("cgroup2", "cgroup") + "lxc.cgroup2.devices.allow: c 510:* rwm\n"
    assert verdicts(judge(MOUNTS + both))[:4] == ["ok"] * 4


def test_a_hook_may_bring_what_the_conf_does_not_show() -> None:
    """NVIDIA's own hook for LXC, in an unprivileged container with an idmap (a Plex page)."""
    conf = (
        "unprivileged: 1\nlxc.idmap: u 0 100000 1000\nlxc.idmap: u 1000 1000 1\n"
        "lxc.hook.pre-start: sh -c '[ ! -f /dev/nvidia-uvm ] && nvidia-modprobe -c0 -u'\n"
        "lxc.environment: NVIDIA_VISIBLE_DEVICES=all\nlxc.hook.mount: /usr/share/lxc/hooks/nvidia\n"
    )
    found = judge(conf)
    assert set(verdicts(found)) == {"unknown"}
    assert "lxc.hook.pre-start" in found[0].say and found[0].where == "ct.conf:4"
    cleared = judge(conf + "lxc.hook.pre-start:\nlxc.hook.mount:\n")
    assert verdicts(cleared)[0] == "failed"


def test_a_comment_behind_a_rule() -> None:
    """LXC reads three letters of access and no further (a German and an English page)."""
    conf = MOUNTS + RULES.replace("rwm", "rwm    # adjust this")
    assert set(verdicts(judge(conf))) == {"ok"}
    found = judge(MOUNTS + RULES + "lxc.cgroup2.devices.allow: c 226 rwm\n")
    assert verdicts(found) == ["ok"] * 4 + ["unknown"]
    assert "ct.conf:7 LXC does not understand the rule 'c 226 rwm'" in said(found, "unknown")


def test_an_unprivileged_container_of_proxmox_is_not_held_to_the_list() -> None:
    """pve-container 4.0 puts `allow = a` before: a rule of another boot changes nothing."""
    stale = MOUNTS + "lxc.cgroup2.devices.allow: c 508:* rwm\n"
    found = judge("unprivileged: 1\n" + stale)
    assert verdicts(found) == ["ok"] * 4 + ["warning"]
    assert "no device of this node has major 508" in found[4].say
    failed = judge(stale)
    assert failed[2].say == (
        "the conf allows 508, /dev/nvidia-uvm is 511; nvidia-smi may pass, CUDA will not"
    )
    assert failed[2].where == "ct.conf:5"


def test_a_folder_of_the_node() -> None:
    """`/dev/dri` and `/dev/nvidia-caps` as folders, with a field too many behind (a TPU page)."""
    node = NODE + (
        "/dev/nvidia-caps:\ntotal 0\ndrwxr-xr-x  2 root root 80 May 24 23:03 .\n"
        "cr-------- 1 root root 235, 1 May 24 23:03 nvidia-cap1\n"
    )
    caps = "lxc.mount.entry: /dev/nvidia-caps dev/nvidia-caps none bind,optional,create=dir 0,0\n"
    found = judge(MOUNTS + RULES + caps, node)
    assert verdicts(found) == ["ok"] * 4 + ["warning"]
    assert "no /dev/nvidia-caps/nvidia-cap1 (235)" in found[4].say
    assert verdicts(judge(MOUNTS + RULES + caps.replace("=dir", "=file"), node)) == ["ok"] * 4
    whole = "lxc.mount.entry: /dev dev none rbind,optional,create=dir\n"
    assert set(verdicts(judge(RULES + whole))) == {"ok"}


def test_entries_of_devices_with_a_group() -> None:
    """`gid=44` for a service that is not root (three pages of 2024 to 2026)."""
    conf = "".join(f"dev{n}: {path},gid=44\n" for n, path in enumerate(ALL))
    assert set(verdicts(judge(conf))) == {"ok"}


def test_a_node_without_uvm_yet() -> None:
    """/dev/nvidia-uvm is made by the first use of CUDA; Proxmox stops at a device that is not."""
    node = "".join(NODE.splitlines(keepends=True)[:2])
    conf = "".join(f"dev{n}: {path}\n" for n, path in enumerate(ALL))
    found = judge(conf, node)
    assert verdicts(found) == ["ok", "ok", "failed", "failed"]
    assert "the node has no /dev/nvidia-uvm, which dev2 names" in found[2].say


def test_a_rule_for_one_gpu_of_two() -> None:
    """A guide for an H100 node allows 195:0 alone, which leaves out nvidiactl (195:255)."""
    found = judge(MOUNTS + "lxc.cgroup2.devices.allow: c 195:0 rwm\n")
    assert verdicts(found)[:2] == ["ok", "failed"]


def test_plain_lxc_without_any_rule_may_use_everything() -> None:
    """lxc.container.conf(5): a folder of its own /dev, aligned by hand (a page on plain LXC)."""
    mounts = MOUNTS.replace("entry:", "entry =").replace(" dev/", "      dev/")
    assert set(verdicts(judge(mounts))) == {"ok"}
    base = "lxc.include = /usr/share/lxc/config/common.conf\n"
    held = judge(base + mounts)
    assert verdicts(held)[:4] == ["failed"] * 4
    assert held[0].lines == (
        "lxc.cgroup2.devices.allow = c 195:* rwm",
        "lxc.mount.entry = /dev/nvidia0 dev/nvidia0 none bind,optional,create=file",
    )
    rules = RULES.replace(":", " =", 1).replace("allow:", "allow =")
    assert set(verdicts(judge(base + rules + mounts))) == {"ok"}


# -- pct.conf(5) and lxc.container.conf(5) ---------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("dev0: /dev/nvidia0,mode=666", "mode=666 is not valid"),
        ("dev0: nvidia0", "it must lie below /dev"),
        ("dev0: /dev/../nvidia0", "it must lie below /dev"),
        ("dev0: gid=44", "it names no path"),
        ("dev0: /dev/nvidia0,colour=red", "'colour' is not an option"),
        ("dev0: /dev/nvidia0,path=/dev/nvidia1", "path is given twice"),
        ("dev0: /dev/nvidia7", "the node has no /dev/nvidia7"),
    ],
)
def test_entries_that_proxmox_refuses(entry: str, says: str) -> None:
    found = judge(f"{entry}\n")
    assert says in said(found, "failed")
    assert "does not start the container" in said(found, "failed")


def test_a_device_that_may_not_be_written_to() -> None:
    conf = "".join(f"dev{n}: {path}\n" for n, path in enumerate(ALL))
    found = judge(conf.replace("nvidiactl", "nvidiactl,deny-write=1"))
    assert verdicts(found)[1] == "failed" and "keeps /dev/nvidiactl from being written" in (
        found[1].say
    )


def test_what_of_a_conf_counts() -> None:
    """The last of a key, the pending section, no snapshot, no comment, no indented line."""
    conf = "".join(f"dev{n}: {path}\n" for n, path in enumerate(ALL))
    assert set(verdicts(judge("dev0: /dev/null\n" + conf))) == {"ok"}
    assert verdicts(judge("#" + conf + "[pve:pending]\ndev0: /dev/nvidia0\n"))[0] == "ok"
    assert verdicts(judge(conf + "[pve:pending]\ndelete: dev0\n"))[0] == "failed"
    snapshot = judge("arch: amd64\n\n[before]\n" + conf)
    assert snapshot[0].lines == ("dev0: /dev/nvidia0",) and snapshot[0].where == "ct.conf:1"
    indented = judge("arch: amd64\n  dev0: /dev/nvidia0\n")
    assert "ct.conf:2 Proxmox does not understand this line" in said(indented, "unknown")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("optional,create=file", "no option bind"),
        ("bind,optional", "no create=file"),
        ("bind,create=dir", "create=dir makes a folder"),
        ("bind,relative,create=file", "from the container's root"),
        ("bind,nodev,create=file", "nodev"),
    ],
)
def test_entries_that_mount_nothing(options: str, says: str) -> None:
    found = judge(RULES + MOUNTS.replace("bind,optional,create=file", options))
    assert verdicts(found)[:4] == ["failed"] * 4 and says in found[0].say


def test_targets() -> None:
    root = RULES + MOUNTS.replace(" dev/", " /var/lib/lxc/129/rootfs/dev/")
    assert set(verdicts(judge(root))) == {"ok"}
    assert set(verdicts(judge(RULES + MOUNTS.replace(" dev/", " ./dev//")))) == {"ok"}
    other = "lxc.mount.entry: /dev/nvidia1 dev/nvidia0 none bind,create=file\n"
    node = NODE + "crw-rw-rw- 1 root root 195, 1 Jul 1 10:00 /dev/nvidia1\n"
    moved = judge(RULES + MOUNTS + other, node)
    assert "is the node's /dev/nvidia1 (195:1)" in said(moved, "unknown")
    escaped = r"lxc.mount.entry: /my\040nodes/nvidia0 dev/nvidia0 none bind,create=file" + "\n"
    assert "/my nodes/nvidia0" in said(judge(RULES + escaped), "unknown")
    assert "no mount entry" in said(judge("lxc.mount.entry: /dev/nvidia0 dev/nvidia0\n"), "unknown")


def test_both_a_device_and_a_mount_for_one_file() -> None:
    found = judge(MOUNTS + RULES + "dev0: /dev/nvidia0\n")
    assert "dev0 brings /dev/nvidia0 as well" in said(found, "warning")


@pytest.mark.parametrize(
    ("rules", "verdict"),
    [
        ("allow: a", "ok"),
        ("allow: c *:* rwm", "ok"),
        ("allow: c 195:* rw", "ok"),
        ("allow: c 195:* m", "failed"),
        ("allow: b 195:* rwm", "failed"),
        ("allow: c 195:0 r|allow: c 195:0 w", "failed"),
        ("allow: /dev/nvidia0 rw", "ok"),
        ("deny: c 195:0 rwm|allow: c 195:0 rwm", "ok"),
        ("allow: c 195:0 rwm|deny: c 195:0 rwm", "failed"),
        ("deny: a|allow: c 195:* rwm", "ok"),
        ("allow: c 195:* rwm|deny: a", "failed"),
        ("deny:|allow:", "ok"),
        ("allow: a|deny: c 195:* w", "failed"),
        ("allow: a|deny: c 195:* m", "ok"),
    ],
)
def test_order_and_deny(rules: str, verdict: str) -> None:
    conf = MOUNTS + "".join(f"lxc.cgroup2.devices.{rule}\n" for rule in rules.split("|"))
    assert verdicts(judge(conf))[0] == verdict


@pytest.mark.parametrize(
    ("conf", "mode", "owner", "verdict"),
    [
        ("unprivileged: 1\n", "crw-rw-rw-", "root root", "ok"),
        ("unprivileged: 1\n", "crw-rw----", "root root", "failed"),
        ("unprivileged: 1\n", "crw-rw----", "root video", "unknown"),
        ("unprivileged: 1\n", "crw-rw----", "100000 100044", "ok"),
        ("unprivileged: 0\n", "crw-rw----", "root root", "ok"),
        ("lxc.idmap: u 0 0 65536\nlxc.idmap: g 0 0 65536\n", "crw-rw----", "0 0", "ok"),
        ("lxc.idmap: u 0 100000 65536\nlxc.idmap: g 44 44 1\n", "crw-rw----", "0 44", "unknown"),
    ],
)
def test_permissions_of_a_mounted_node(conf: str, mode: str, owner: str, verdict: str) -> None:
    node = NODE.replace("crw-rw-rw- 1 root root", f"{mode} 1 {owner}", 1)
    assert verdicts(judge(conf + RULES + MOUNTS, node))[0] == verdict


def test_includes() -> None:
    conf = "lxc.include = /etc/gpu.conf\n"
    text = (MOUNTS + RULES).replace(":", " =").replace("c 195 =*", "c 195:*")
    text = text.replace("c 511 =*", "c 511:*")
    assert set(verdicts(judge(conf, includes={"/etc/gpu.conf": text}))) == {"ok"}
    unknown = judge("lxc.cgroup2.devices.allow = a\n" + conf)
    assert set(verdicts(unknown)) == {"unknown"} and "/etc/gpu.conf" in unknown[0].say
    secret = judge(conf, includes={"/etc/gpu.conf": "root:$6$hash:1::\n"})
    assert "hash" not in "".join(f.say for f in secret)
    endless = judge(conf, includes={"/etc/gpu.conf": conf})
    assert endless


def test_a_devn_line_in_plain_lxc_has_no_effect() -> None:
    conf = "lxc.rootfs.path = dir:/srv/ct\nlxc.uts.name = ct\ndev0: /dev/nvidia0\n"
    found = judge(conf)
    assert verdicts(found)[0] == "failed"
    assert "LXC does not understand this line: 'dev0: /dev/nvidia0'" in said(found, "unknown")


# -- listings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [
        "crw-rw-rw- 1 root root 195, 0 Jul 1 10:00 /dev/nvidia0",
        "crw-rw-rw-  1 root root 195,   0 2026-07-01 10:00 /dev/nvidia0",
        "crw-rw-rw-. 1 0 0 195,0 Jul  1  2025 /dev/nvidia0",
        "crw-rw-rw-+ 1 root video 195, 0 1. Jul 10:00 /dev/nvidia0",
        "crw-rw-rw- 1 root root 195, 0 2026-07-01 10:00:00.123456789 +0200 /dev/nvidia0",
        "crw-rw-rw- 1 root root 195, 0 Jul 1 10:00 \x1b[0m\x1b[40;33;01m/dev/nvidia0\x1b[0m",
        "crw-rw-rw- 1 root root 195,   0 /dev/nvidia0",
    ],
)
def test_forms_of_a_listing(row: str) -> None:
    listed = listing.parse(row)
    (device,) = listed.devices
    assert (device["path"], device["major"], device["minor"]) == ("/dev/nvidia0", 195, 0)
    assert device["mode"] == 0o666 and not listed.odd


def test_what_is_no_listing_is_shown() -> None:
    listed = listing.parse(
        "root@pve:~# ls -l /dev/nvidia*\n"
        + NODE
        + "ls: cannot access '/dev/nvidia9': No such file\n"
    )
    assert len(listed.devices) == 4
    assert listed.odd == ((1, "root@pve:~# ls -l /dev/nvidia*"),)
    (plain,) = listing.parse("-rw-r--r-- 1 root root 0 Jul 1 10:00 /dev/nvidia-uvm").devices
    assert plain["kind"] == "file" and plain["major"] is None


# -- anything -------------------------------------------------------------------------------------

KEYS = st.sampled_from(
    ["dev0", "dev1", "dev300", "unprivileged", "lxc.mount.entry", "lxc.include", "lxc.idmap",
     "lxc.cgroup2.devices.allow", "lxc.cgroup2.devices.deny", "lxc.cgroup.devices.allow",
     "lxc.cgroup2", "lxc.autodev", "lxc.hook.mount", "lxc.rootfs.path", "[pve:pending]", "delete"]
)  # fmt: skip
VALUES = st.sampled_from(
    ["", "1", "a", "c 195:* rwm", "c 511:0 r", "c 508:* rwm", "b *:* m", "u 0 100000 65536",
     "/dev/nvidia0", "path=/dev/nvidiactl,mode=0666", "mode=0666,/dev/nvidia-uvm", "x", "/dev dev",
     "/dev/nvidia0 dev/nvidia0 none bind,optional,create=file", "dir:/srv", "/etc/x", "dev0,dev1",
     "/dev dev none rbind", "/dev/nvidiactl /dev/nvidiactl none bind,create=file 0 0"]
) | st.text(max_size=20)  # fmt: skip
LINE = st.tuples(KEYS, st.sampled_from([": ", " = ", ":", "=", " : "]), VALUES).map("".join)
CONF = st.lists(LINE | st.text(max_size=30), max_size=12).map("\n".join)


@given(CONF, st.sampled_from([1, 2, None]))
def test_any_conf_is_judged_without_a_number_of_its_own(conf: str, cgroup: int | None) -> None:
    known = set(re.findall(r"\d+", conf + NODE)) | set(map(str, range(256))) | {"0666", "2", "1"}
    known |= {str(n) for n in range(1, 20)} | {"100000", "65536"}
    for finding in judge(conf, cgroup=cgroup):
        assert finding.verdict in ("ok", "warning", "failed", "unknown")
        # What is quoted from the conf may be escaped, and so have other digits.
        own = re.split(r"['\"]", finding.say)[0]
        assert set(re.findall(r"\d+", own)) <= known, finding.say
        assert finding.verdict == "ok" or finding.say


@given(CONF, st.sampled_from([1, 2]))
def test_advice_that_is_followed_is_enough(conf: str, cgroup: int) -> None:
    """With its lines added, and those that it names removed, no device fails that it was about."""
    before = judge(conf, cgroup=cgroup)
    failed = [f for f in before if f.verdict == "failed" and f.lines and f.needed]
    if any("not valid" in f.say or "the node has no" in f.say for f in before):
        return
    lines = [*conf.split("\n")]
    for _ in range(6):
        found = judge("\n".join(lines), cgroup=cgroup)
        gone = {int(n) for f in found for n in re.findall(r"remove line (\d+)", f.say)}
        for f in found:
            if "remove these" in f.say:
                gone |= {int(n) for n in re.findall(r"\d+", f.say.partition("as lines")[2])}
        end = int(found[0].where.rpartition(":")[2]) if found else 0
        add = [line for f in found if f.needed and f.verdict == "failed" for line in f.lines]
        if not add and not gone:
            break
        end = parse("\n".join(lines), "ct.conf").end.line
        kept = [(n, line) for n, line in enumerate(lines, 1) if n not in gone]
        lines = [line for n, line in kept if n <= end] + add
        lines += [line for n, line in kept if n > end]
    after = judge("\n".join(lines), cgroup=cgroup)
    still = {f.needed for f in after if f.verdict == "failed" and f.needed}
    assert not still & {f.needed for f in failed}, lines


@given(st.text(max_size=300))
def test_any_listing_is_read(text: str) -> None:
    numbers = {int(n) for n in re.findall(r"[0-9]+", text)}
    for device in listing.parse(text).devices:
        assert {device["major"], device["minor"]} <= numbers | {None}
