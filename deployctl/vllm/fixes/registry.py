"""The known fixes, and the one piece of source by which a host is asked for them."""

from __future__ import annotations

import functools
from importlib import resources

from deployctl.vllm.fixes.examine import FIXES
from deployctl.vllm.fixes.interface import Fix

_PACKAGE = "deployctl.vllm.fixes"
# In the order of their imports.
_MODULES = (
    "tree",
    "interface",
    "running",
    "dflash_layer_offset",
    "dflash_sliding_window",
    "dflash_cache_drop",
    "dflash_lookahead",
    "dflash_lm_head",
    "examine",
)
_ASSEMBLE = """\
import sys as _sys, types as _types
for _name in ("deployctl", "deployctl.vllm", "deployctl.vllm.fixes"):
    _module = _types.ModuleType(_name)
    _module.__path__ = []
    _sys.modules[_name] = _module
for _name, _source in {sources!r}:
    _full = "deployctl.vllm.fixes." + _name
    _module = _types.ModuleType(_full)
    _module.__file__ = _full
    _sys.modules[_full] = _module
    exec(compile(_source, _full, "exec"), _module.__dict__)
    setattr(_sys.modules["deployctl.vllm.fixes"], _name, _module)
examine = _module.examine
"""


def by_name() -> dict[str, Fix]:
    """Every known fix."""
    return {fix.name: fix for fix in FIXES}


@functools.cache
def probe_source() -> str:
    """A module of the standard library alone with `examine(tree, names)`, for `modules.run`."""
    folder = resources.files(_PACKAGE)
    sources = [(name, (folder / f"{name}.py").read_text("utf-8")) for name in _MODULES]
    return _ASSEMBLE.format(sources=sources)
