"""Docker Compose, by the Compose Specification (GPUs as reserved devices)."""

from __future__ import annotations

from typing import Any

from deployctl.engine.inspect.exporting import DRAFTER, Exported
from deployctl.report.export.interface import START_LIMIT, dump, volume_name

HEAD = "Start: docker compose up --detach --wait"
MANY = """
One of {replicas} replicas: start it on each host. A router that divides requests among them is not
part of this file."""


def render(one: Exported) -> str:
    """One service with its health check; models from repositories are fetched once by services
    that end."""
    server = _server(one)
    services = {one.name: server}
    for folder in one.fetched:
        fetch = f"fetch-{volume_name(folder)}"
        services[fetch] = {
            "image": one.image,
            "entrypoint": folder.download(),
            "environment": _environment(one, {"HF_TOKEN"}, {}),
            "volumes": [_volume(volume_name(folder), folder.place)],
            "restart": "no",
        }
        ended = {"condition": "service_completed_successfully"}
        server.setdefault("depends_on", {})[fetch] = ended
    document: dict[str, Any] = {"name": one.name, "services": services}
    if one.fetched:
        document["volumes"] = {volume_name(folder): {} for folder in one.fetched}
    if one.drafter_config is not None:
        document["configs"] = {"drafter-config": {"content": _literal(one.drafter_config)}}
    many = MANY.format(replicas=one.replicas) if one.replicas > 1 else ""
    return dump(document, head=HEAD + many)


def _server(one: Exported) -> dict[str, Any]:
    probe = f"import urllib.request as r; r.urlopen('http://127.0.0.1:{one.port}/health')"
    server: dict[str, Any] = {
        "image": one.image,
        "entrypoint": [_literal(one.argv[0])],
        "command": [_literal(word) for word in one.argv[1:]],
        "environment": _environment(one, set(one.secrets), one.env),
        "ports": [f"{_published(one.address)}{one.port}:{one.port}"],
        "volumes": [
            *(_bind(str(folder.path), folder.place) for folder in one.mounted),
            *(_volume(volume_name(folder), folder.place) for folder in one.fetched),
        ],
        "ipc": "host",
        "stop_signal": "SIGTERM",
        "stop_grace_period": f"{one.stop_seconds}s",
        "restart": "unless-stopped",
        "healthcheck": {
            "test": ["CMD", "python3", "-c", probe],
            "interval": "10s",
            "timeout": "5s",
            "retries": 3,
            "start_period": f"{START_LIMIT}s",
        },
    }
    if one.gpus:
        device: dict[str, Any] = {"driver": "nvidia", "capabilities": ["gpu"]}
        device |= {"device_ids": list(one.device_ids)} if one.device_ids else {"count": one.gpus}
        server.setdefault("deploy", {})["resources"] = {"reservations": {"devices": [device]}}
    if one.drafter_config is not None:
        server["configs"] = [{"source": "drafter-config", "target": f"{DRAFTER}/config.json"}]
    return server


def _published(address: str) -> str:
    """The host's part of a published port; IPv6 in brackets."""
    return f"[{address}]:" if ":" in address else f"{address}:" if address else ""


def _environment(one: Exported, names: set[str], env: Any) -> dict[str, str]:
    """Plain variables as they are; secrets by reference, so that a missing one stops the start."""
    found = {name: _literal(value) for name, value in env.items()}
    for name, source in one.secrets.items():
        if name in names:
            found[name] = f"${{{source}:?}}"
    return found


def _literal(text: str) -> str:
    """A text in which Compose replaces no variable."""
    return text.replace("$", "$$")


def _bind(source: str, target: str) -> dict[str, Any]:
    return {"type": "bind", "source": source, "target": target, "read_only": True}


def _volume(source: str, target: str) -> dict[str, Any]:
    return {"type": "volume", "source": source, "target": target}
