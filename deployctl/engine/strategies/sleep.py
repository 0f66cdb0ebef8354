"""Sleep: what serves sleeps while its successor is started and judged on the same GPUs."""

from __future__ import annotations

from deployctl.engine.strategies.blue_green import BlueGreen


class Sleep(BlueGreen):
    """Two units on the same GPUs, of which one is awake. What cannot sleep is stopped instead."""

    name = "sleep"
    sleeps = True
