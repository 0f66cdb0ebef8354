"""RayService: one model over the nodes of a Ray cluster, served by Ray Serve's own LLM application.

KubeRay starts Ray in each pod and hands the application to Ray Serve, which starts vLLM's engine:
the pods have no command, and the server's options are the engine's arguments.
"""

from __future__ import annotations

from typing import Any

from deployctl.engine.inspect.exporting import MODEL, Exported
from deployctl.report.export import kubernetes
from deployctl.report.export.interface import dns_label, dump

APPLICATION = "ray.serve.llm:build_openai_app"
OWN = (
    *("command", "ports", "startupProbe", "readinessProbe", "livenessProbe", "lifecycle"),
    "resources",
)
"""What KubeRay gives a pod, or what depends on its place."""


def render(one: Exported) -> str:
    """The manifests as one stream of documents."""
    documents = [_service(one)]
    if one.drafter_config is not None:
        documents.insert(0, kubernetes.config_map(one))
    name = dns_label(one.name)
    head = (
        "Apply: kubectl apply --filename FILE (KubeRay must be installed, and the image must have"
        f"\nray[serve,llm] {one.ray_version})"
        f"\nClients ask the Service {name}-serve-svc, port {one.port}."
        "\nA change of the cluster takes effect once the RayService was deleted and applied again:"
        "\nanother cluster beside this one would need twice the GPUs (upgradeStrategy)."
    )
    if one.secrets:
        named = ", ".join(sorted(one.secrets))
        head += f"\nSecret {kubernetes.secret_name(one)} must exist with the keys: {named}"
    return dump(*documents, head=head)


def _service(one: Exported) -> dict[str, Any]:
    count = one.replicas * one.groups
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": dns_label(one.name)},
        "spec": {
            "upgradeStrategy": {"type": "None"},
            "serveConfigV2": dump(_application(one)),
            "rayClusterConfig": {
                "rayVersion": one.ray_version,
                "authOptions": {"mode": "token"},
                "headGroupSpec": {
                    "rayStartParams": {"num-gpus": "0"},
                    "template": {"spec": _pod(one, "ray-head")},
                },
                "workerGroupSpecs": [
                    {
                        "groupName": "ranks",
                        "replicas": count,
                        "minReplicas": count,
                        "maxReplicas": count,
                        "rayStartParams": {"num-gpus": str(one.gpus)},
                        "template": {"spec": _pod(one, "ray-worker")},
                    }
                ],
            },
        },
    }


def _application(one: Exported) -> dict[str, Any]:
    model = {"model_id": one.served_name, "model_source": MODEL}
    llm = {
        "model_loading_config": model,
        "engine_kwargs": dict(one.engine),
        "deployment_config": {
            "num_replicas": one.groups,
            "graceful_shutdown_timeout_s": one.stop_seconds,
        },
    }
    return {
        "http_options": {"host": "0.0.0.0", "port": one.port},
        "applications": [
            {
                "name": "llm",
                "import_path": APPLICATION,
                "route_prefix": "/",
                "args": {"llm_configs": [llm]},
            }
        ],
    }


def _pod(one: Exported, name: str) -> dict[str, Any]:
    spec = kubernetes.pod(one)
    (container,) = spec["containers"]
    container = {key: value for key, value in container.items() if key not in OWN}
    container["name"] = name
    container["ports"] = [{"name": "serve", "containerPort": one.port}]
    if name == "ray-worker" and one.gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": one.gpus}}
    return {**spec, "containers": [container]}
