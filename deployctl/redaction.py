"""Secret values of this process's environment, hidden wherever something is printed or kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

HIDDEN = "<secret>"
LEAST = 6
"""Characters of a value that is looked for; shorter ones stand in every text by chance."""
_forms: list[str] = []


def hide(found: Iterable[str]) -> None:
    """From now on these values are hidden; in JSON and URLs they may be written otherwise."""
    forms = set(_forms)
    for value in found:
        if len(value) >= LEAST:
            forms.update((value, json.dumps(value)[1:-1], quote(value), quote(value, safe="")))
    _forms[:] = sorted(forms, key=len, reverse=True)


def text(shown: str) -> str:
    """A text without the hidden values."""
    for form in _forms:
        if form in shown:
            shown = shown.replace(form, HIDDEN)
    return shown


def document(data: Any) -> Any:
    """A document without the hidden values, in its keys, too."""
    if not _forms:
        return data
    if isinstance(data, str):
        return text(data)
    if isinstance(data, Mapping):
        return {document(key): document(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [document(value) for value in data]
    return data
