"""Looking into files while others write them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def contents(*folders: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file below these folders, and its bytes; links are left out, and so is what goes away
    meanwhile: who replaces a file has another one beside it for a moment."""
    for folder in folders:
        for top, _, names in os.walk(folder):
            for path in (Path(top, name) for name in names):
                data = None
                with suppress(FileNotFoundError):
                    data = None if path.is_symlink() or not path.is_file() else path.read_bytes()
                if data is not None:
                    yield path, data
