"""Built wheels, kept by the key of everything that made them: `@/wheels/<key>/`.

Beside the wheel lies `wheel.json`; it is written last, so that a folder without it does not count.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import stat
import time
from typing import Any, List

from ..core.atomic_files import read_json, write_json
from ..core.interface import Call
from ..core.regular_files import digest
from ..wire.builds import KeptWheel, PrunedWheels

WHEELS = "@/wheels"
RECORD = "wheel.json"


def keep(folder: str, target: str, record: str) -> int:
    """A chore: move the one wheel of `folder` to `target`, with `record` (JSON) beside it."""
    # What was built there may have left links.
    names = [] if os.path.islink(folder) else sorted(os.listdir(folder))
    found = [os.path.join(folder, name) for name in names if name.endswith(".whl")]
    found = [path for path in found if stat.S_ISREG(os.lstat(path).st_mode)]
    if len(found) != 1:
        print(f"{len(found)} wheels in {folder}, not one")
        return 1
    os.makedirs(target, exist_ok=True)
    for old in glob.glob(os.path.join(glob.escape(target), "*")):
        os.unlink(old)
    wheel = os.path.join(target, os.path.basename(found[0]))
    # A file of our own: what was built as another user is that user's to change.
    shutil.copyfile(found[0], wheel)
    os.chmod(wheel, 0o644)
    os.unlink(found[0])
    content = dict(json.loads(record))
    content.update(
        wheel=os.path.basename(wheel),
        sha256=digest(wheel).hexdigest(),
        size=os.path.getsize(wheel),
        built=time.time(),
    )
    write_json(os.path.join(target, RECORD), content)
    print(f"{content['wheel']} is kept, {content['size']} bytes")
    return 0


def wheels(call: Call) -> List[KeptWheel]:
    """Every kept wheel: its record with `key`, `path`, `used` (last use, Unix time) and `whole`
    (the file is there with its size)."""
    found: List[KeptWheel] = []
    for path in sorted(glob.glob(call.pattern(f"{WHEELS}/*/{RECORD}"))):
        record = read_json(path)
        if record is None:
            continue
        folder = os.path.dirname(path)
        wheel = os.path.join(folder, record["wheel"])
        try:
            size, used = os.path.getsize(wheel), os.path.getatime(wheel)
        except FileNotFoundError:
            size, used = -1, 0.0
        whole = size == record["size"]
        record.update(key=os.path.basename(folder), path=wheel, whole=whole)
        record["used"] = max(record["built"], used if whole else 0)
        kept: Any = record
        found.append(kept)
    return found


def prune_wheels(call: Call, limit: int, keep: List[str]) -> PrunedWheels:
    """Remove the wheels that were not used for the longest until the rest has at most `limit`
    bytes; those whose keys are in `keep` stay. Gives `removed` (keys) and `size` of the rest."""
    kept = sorted(wheels(call), key=lambda record: record["used"])
    size = sum(record["size"] for record in kept)
    removed = []
    for record in kept:
        if size <= limit:
            break
        if record["key"] in keep:
            continue
        folder = os.path.dirname(record["path"])
        size -= record["size"]
        try:
            # Without its record it no longer counts as a wheel, wherever the removal is cut off.
            os.unlink(os.path.join(folder, RECORD))
        except FileNotFoundError:
            continue  # somebody else is removing it
        shutil.rmtree(folder)
        removed.append(record["key"])
    return {"removed": removed, "size": size}
