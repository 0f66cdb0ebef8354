"""vllm-router of the vLLM project (https://github.com/vllm-project/router), as of 0.1.17.

It keeps no replica over a restart, and its API to add and remove them is on the port that clients
use. With replicas in its command line it opens that port once one of them answers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from urllib.parse import quote

from deployctl.config.router import RouterSettings
from deployctl.steps.routers.interface import Request, RouterEngine

CIRCUIT = 10
"""Seconds for which its circuit breaker keeps requests from a replica after errors."""
OPEN = 1.0
"""The value of `vllm_router_cb_state` while a replica's circuit breaker is open."""


class VllmRouter(RouterEngine):
    """The default engine: it knows prefixes of prompts, and retries what has not begun."""

    name = "vllm-router"
    replicas_option = "--worker-urls"
    alive = Request("GET", "/liveness")
    # /health is 503 as soon as one replica of many is ill, as in every roll.
    ready = Request("GET", "/readiness")
    listing = Request("GET", "/workers")

    def requirement(self, settings: RouterSettings) -> str:
        return f"vllm-router=={settings.version}"

    def argv(self, settings: RouterSettings, environment: str) -> list[str]:
        health, (host, port) = settings.health, settings.listens
        options: dict[str, object] = {
            "--host": host,
            "--port": port,
            "--policy": settings.policy,
            "--prometheus-host": "127.0.0.1",
            "--prometheus-port": settings.metrics_port,
            "--health-check-interval-secs": math.ceil(health.interval),
            "--health-check-timeout-secs": math.ceil(health.timeout),
            "--health-failure-threshold": health.failures,
            "--health-success-threshold": 1,
            "--worker-startup-check-interval": 1,
            # A replica that was started again after a crash gets no requests for so long.
            "--cb-timeout-duration-secs": CIRCUIT,
        }
        flat = (str(part) for option in options.items() for part in option)
        return [f"{environment}/bin/vllm-router", *flat]

    def add(self, url: str) -> Request:
        return Request("POST", f"/add_worker?url={quote(url, safe='')}")

    def remove(self, url: str) -> Request:
        return Request("POST", f"/remove_worker?url={quote(url, safe='')}")

    def replicas(self, body: str) -> Mapping[str, bool]:
        try:
            found = json.loads(body)["workers"]
            return {str(one["url"]): bool(one["is_healthy"]) for one in found}
        except (KeyError, TypeError) as error:
            raise ValueError(f"no list of workers: {body[:200]}") from error

    def added(self, status: int, body: str) -> bool:
        return status == 200 or (status == 400 and "already exists" in body)

    def cut_off(self, metrics: str, url: str) -> bool:
        state = re.search(
            rf'^vllm_router_cb_state{{[^}}]*worker="{re.escape(url)}"[^}}]*}} (\S+)$', metrics, re.M
        )
        return state is not None and float(state[1]) == OPEN
