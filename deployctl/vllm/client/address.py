"""How a server is reached: its URL, the key it asks for, whom its certificate is trusted from."""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit

from deployctl.errors import UsageError


def host_of(url: str) -> str:
    """The host in a server's URL; raises `UsageError` for an invalid one."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("it needs http:// or https:// and a host")
        if parts.port == 0:
            raise ValueError("port 0 is invalid")
    except ValueError as error:
        raise UsageError(
            f"{url} is not a server URL", str(error), "write it as http://HOST:PORT"
        ) from error
    return parts.hostname


def authorization(api_key: str) -> dict[str, str]:
    """The header for a key; raises `UsageError` where none can carry it."""
    if not (api_key.isascii() and api_key.isprintable()):
        raise UsageError(
            "the API key has characters that no HTTP header can carry",
            next="look at the variable that holds it for a line end or a letter beyond ASCII",
        )
    return {"Authorization": f"Bearer {api_key}"}


def tls(url: str, ca_file: str | None) -> ssl.SSLContext | bool:
    """TLS by an authority of one's own, else by the usual ones (True); raises `UsageError` for an
    invalid file."""
    if not ca_file:
        # Without TLS none is trusted: reading the usual ones takes longer than many a request.
        plain = urlsplit(url).scheme == "http"
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise UsageError(
            f"{ca_file} cannot be used as a certificate authority",
            str(error),
            "name a file of certificates in PEM form",
        ) from error
