"""The files of a model's weights."""

from __future__ import annotations

import os
from typing import Iterator, List, Tuple

WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth")


def weights(folders: List[str]) -> Iterator[Tuple[str, int]]:
    """The files of weights in these folders with their sizes in bytes, links followed."""
    for folder in folders:
        for top, _, names in os.walk(folder):
            for name in sorted(names):
                path = os.path.realpath(os.path.join(top, name))
                if name.endswith(WEIGHTS) and os.path.isfile(path):
                    yield path, os.path.getsize(path)
