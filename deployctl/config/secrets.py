"""Where secrets must not stand: a profile is read, shown, recorded and reported."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

_NAMES = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|API_KEY|ACCESS_KEY|PRIVATE_KEY)$", re.I)
_SWITCH = re.compile(r"^(|0|1|true|false|on|off|yes|no)$", re.I)


def exposed(variables: Mapping[str, str]) -> list[str]:
    """Variables that hold a secret by their name; HF_HUB_DISABLE_IMPLICIT_TOKEN=1 is a switch."""
    return [
        name
        for name, value in variables.items()
        if _NAMES.search(name) and not _SWITCH.match(value)
    ]


def has_password(url: str) -> bool:
    """Whether a URL carries a password or a token in front of its host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and parts.username is not None
    except ValueError:
        return False
