"""Folders that code of others has filled: of any depth, beyond what one path can name."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from typing import Callable, Iterator


def remove(folder: str) -> None:
    """Remove a folder and all below it, links unfollowed; nothing where there is none. Raises
    OSError where some of it stays."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except (RecursionError, OSError) as error:
        # rm(1) names no path from the top, and does not recurse.
        subprocess.run(["rm", "-rf", "--", folder], capture_output=True, check=False)
        if os.path.lexists(folder):
            raise OSError(f"{folder} cannot be removed: {error}") from error


def statuses(folder: str, step: Callable[[], None]) -> Iterator[os.stat_result]:
    """Of all files below a folder, as far as a path can name it; `step` is called for each
    folder."""
    pending = [folder]
    while pending:
        step()
        # It may go meanwhile, or be too deep.
        with suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        yield entry.stat(follow_symlinks=False)
