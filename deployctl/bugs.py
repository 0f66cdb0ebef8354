"""A bug of ours, met while it runs: its traceback goes to a file, which the failure names."""

from __future__ import annotations

import tempfile
import traceback

from deployctl import redaction
from deployctl.errors import InternalError


def internal(place: str, error: Exception) -> InternalError:
    """The failure that a bug is, at a host or (for no place) of the command; its traceback is
    kept."""
    at = f"{place}: " if place else ""
    return InternalError(
        f"{at}internal error, {type(error).__name__}: {error}",
        next=f"please report it with the traceback in {kept(error)}",
    )


def kept(error: Exception) -> str:
    """Write an error's traceback to a file of its own; the file's path, or why there is none."""
    try:
        with tempfile.NamedTemporaryFile(
            "w",
            prefix="deployctl-",
            suffix=".traceback",
            delete=False,
            encoding="utf-8",
            errors="backslashreplace",
        ) as file:
            file.write(redaction.text("".join(traceback.format_exception(error))))
    except OSError as refused:
        return f"no file ({refused})"
    return file.name
