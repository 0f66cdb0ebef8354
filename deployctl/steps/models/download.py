"""Fetches one revision of a hub's model into a folder. Runs on the host, as `python -c`, in the
built environment, which has huggingface_hub. Its only argument is a JSON object::

    {"repo", "revision", "folder", "files": [{"name", "size", "sha256"}]}

Counters `[MiB/MiB]` are printed while bytes come, and nothing while none do: the job's watchdog
sees a download that hangs. A download that was cut off goes on where it was. The folder appears
under its name only when every file has its size and digest.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

MIB = 1 << 20


def main(wanted: dict[str, Any]) -> int:
    folder = Path(wanted["folder"])
    partial = folder.with_name(folder.name + ".part")
    partial.mkdir(parents=True, exist_ok=True)
    ended = threading.Event()
    total = sum(file["size"] or 0 for file in wanted["files"])
    watcher = threading.Thread(target=count, args=(partial, total, ended), daemon=True)
    watcher.start()
    try:
        download(wanted, partial)
    finally:
        ended.set()
        watcher.join()
    wrong = [problem for file in wanted["files"] for problem in differences(partial, file)]
    if wrong:
        print("damaged: " + "; ".join(wrong), flush=True)
        return 1
    put_in_place(partial, folder)
    print(f"whole: {folder}", flush=True)
    return 0


def put_in_place(partial: Path, folder: Path) -> None:
    """Give the whole folder its name; a damaged one of that name goes."""
    aside = folder.with_name(folder.name + ".damaged")
    if folder.exists():
        folder.rename(aside)
    partial.rename(folder)
    if aside.exists():
        shutil.rmtree(aside)


def download(wanted: dict[str, Any], partial: Path) -> None:
    from huggingface_hub import snapshot_download

    snapshot_download(
        wanted["repo"],
        revision=wanted["revision"],
        local_dir=partial,
        # The names are literal; the hub lists the files once more, and may list others.
        allow_patterns=[glob.escape(file["name"]) for file in wanted["files"]],
    )


def count(partial: Path, total: int, ended: threading.Event) -> None:
    """Print how much has come, each time that more has."""
    shown = -1
    while not ended.wait(1.0):
        there = present(partial)
        if there != shown:
            shown = there
            print(f"[{there // MIB}/{max(1, total // MIB)}] MiB", flush=True)


def present(folder: Path) -> int:
    """Bytes below a folder whose files and folders the download may rename at any time."""
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += Path(at, name).lstat().st_size
    return total


def differences(partial: Path, file: dict[str, Any]) -> list[str]:
    """How a fetched file differs from what the hub promised; a damaged one is removed."""
    path = partial / file["name"]
    if not path.is_file():
        return [f"{file['name']} did not come"]
    found = path.stat().st_size
    if file["size"] is not None and found != file["size"]:
        path.unlink()
        return [f"{file['name']} has {found} bytes, not {file['size']}"]
    if file["sha256"]:
        digest = sha256(path)
        if digest != file["sha256"]:
            path.unlink()
            return [f"{file['name']} has SHA-256 {digest}, not {file['sha256']}"]
    return []


def sha256(path: Path) -> str:
    """The digest of a file of any size."""
    digest = hashlib.sha256()
    with path.open("rb") as opened:
        while data := opened.read(MIB):
            digest.update(data)
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
