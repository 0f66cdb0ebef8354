"""Kubernetes: a Deployment, a Service and, where the drafter's config is changed, a ConfigMap.

A new pod waits for the old one to leave (`maxSurge: 0`): a surge would wait for a GPU that the old
one holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployctl.engine.inspect.exporting import DRAFTER, Exported, Folder
from deployctl.report.export.interface import START_LIMIT, dns_label, dump, volume_name

SETTLE = 5
"""Seconds before a stop, in which routers learn that the pod leaves."""
PERIOD = 10
"""Seconds between two probes."""


def render(one: Exported) -> str:
    """The manifests as one stream of documents."""
    labels = {"app.kubernetes.io/name": dns_label(one.name)}
    documents = [_deployment(one), service(one, labels)]
    if one.drafter_config is not None:
        documents.insert(0, config_map(one))
    named = ", ".join(sorted(one.secrets))
    head = "Apply: kubectl apply --filename FILE"
    if named:
        head += f"\nSecret {secret_name(one)} must exist with the keys: {named}"
    if one.replicas > 1:
        head += "\nThe Service divides requests among the replicas; a router is not part of this."
    return dump(*documents, head=head)


def secret_name(one: Exported) -> str:
    """The Secret that holds the server's secret variables."""
    return f"{dns_label(one.name)}-secrets"


def _deployment(one: Exported) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": dns_label(one.name)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": dns_label(one.name), "labels": labels},
        "spec": {
            "replicas": one.replicas,
            "selector": {"matchLabels": labels},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
            },
            "template": {"metadata": {"labels": labels}, "spec": pod(one)},
        },
    }


def pod(one: Exported) -> dict[str, Any]:
    """The pod's spec: the server, its probes, and what fetches its models."""
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": one.stop_seconds + SETTLE,
        "containers": [_container(one)],
        "volumes": _volumes(one),
    }
    if one.fetched:
        spec["initContainers"] = [_fetch(one, folder) for folder in one.fetched]
    return spec


def _container(one: Exported) -> dict[str, Any]:
    return {
        "name": "vllm",
        "image": one.image,
        # An argument's own "$(NAME)" would be replaced by Kubernetes.
        "command": [word.replace("$(", "$$(") for word in one.argv],
        "env": _environment(one),
        "ports": [{"name": "http", "containerPort": one.port}],
        "resources": {"limits": {"nvidia.com/gpu": one.gpus}} if one.gpus else {},
        "startupProbe": {**_probe(one), "failureThreshold": START_LIMIT // PERIOD},
        "readinessProbe": {**_probe(one), "failureThreshold": 3},
        "livenessProbe": {**_probe(one), "timeoutSeconds": PERIOD, "failureThreshold": 6},
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(SETTLE)]}}},
        "volumeMounts": [*_mounts(one), {"name": "shm", "mountPath": "/dev/shm"}],
    }


def _probe(one: Exported) -> dict[str, Any]:
    return {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": PERIOD}


def _environment(one: Exported) -> list[dict[str, Any]]:
    plain = [{"name": name, "value": value} for name, value in one.env.items()]
    return [*plain, *_secrets(one, set(one.secrets))]


def _secrets(one: Exported, names: set[str]) -> list[dict[str, Any]]:
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret_name(one), "key": name}}}
        for name in sorted(one.secrets)
        if name in names
    ]


def _fetch(one: Exported, folder: Folder) -> dict[str, Any]:
    return {
        "name": f"fetch-{volume_name(folder)}",
        "image": one.image,
        "command": folder.download(),
        "env": _secrets(one, {"HF_TOKEN"}),
        "volumeMounts": [{"name": volume_name(folder), "mountPath": folder.place}],
    }


def _mounts(one: Exported) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"name": volume_name(folder), "mountPath": folder.place, "readOnly": True}
        for folder in one.models
    ]
    if one.drafter_config is not None:
        path = f"{DRAFTER}/config.json"
        mounts.append({"name": "drafter-config", "mountPath": path, "subPath": "config.json"})
    return mounts


def _volumes(one: Exported) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"name": volume_name(folder), "hostPath": {"path": folder.path, "type": "Directory"}}
        for folder in one.mounted
    ]
    volumes += [{"name": volume_name(folder), "emptyDir": {}} for folder in one.fetched]
    if one.drafter_config is not None:
        name = f"{dns_label(one.name)}-drafter"
        volumes.append({"name": "drafter-config", "configMap": {"name": name}})
    return [*volumes, {"name": "shm", "emptyDir": {"medium": "Memory"}}]


def config_map(one: Exported) -> dict[str, Any]:
    """The drafter's config.json."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{dns_label(one.name)}-drafter"},
        "data": {"config.json": one.drafter_config},
    }


def service(one: Exported, selector: Mapping[str, str]) -> dict[str, Any]:
    """The Service in front of the pods with these labels."""
    labels = {"app.kubernetes.io/name": dns_label(one.name)}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": dns_label(one.name), "labels": labels},
        "spec": {
            "selector": dict(selector),
            "ports": [{"name": "http", "port": one.port, "targetPort": "http"}],
        },
    }
