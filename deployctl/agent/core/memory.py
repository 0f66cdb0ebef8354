"""How much memory this machine, or the control group that the agent is in, has left."""

from __future__ import annotations

LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


def available() -> int:
    """Bytes: what the kernel says, or what the control group leaves, whichever is less."""
    with open("/proc/meminfo", encoding="ascii") as file:
        lines = dict(line.split(":", 1) for line in file)
    amounts = [int(lines["MemAvailable"].split()[0]) * 1024]
    for limit, used in LIMITS:
        try:
            with open(limit, encoding="ascii") as file, open(used, encoding="ascii") as current:
                amounts.append(max(0, int(file.read()) - int(current.read())))
        except (OSError, ValueError):
            continue  # no such controller here, or "max"
    return min(amounts)
