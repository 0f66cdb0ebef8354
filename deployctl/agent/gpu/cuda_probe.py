"""Asks the CUDA driver itself, in a process of its own: nvidia-smi may pass where CUDA fails.

Run as a child with a time limit, for a driver call may hang in the kernel. Prints one line of JSON.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import json
import os
import re
import sys
from typing import Any, Dict, List, Optional

from ..wire.gpus import Cuda, CudaError

LIBRARY = "libcuda.so.1"
OPENED = re.compile(r"/dev/nvidia(\d+|ctl|-uvm|-uvm-tools)")
"""The device files that CUDA opens."""


def open_devices() -> Dict[str, Optional[str]]:
    """For each device file: None where it can be opened, else the name of the error."""
    results: Dict[str, Optional[str]] = {}
    for path in sorted(glob.glob("/dev/nvidia*")):
        if not OPENED.fullmatch(path):
            continue
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
            results[path] = None
        except OSError as error:
            results[path] = errno.errorcode.get(error.errno or 0, str(error.errno))
    return results


class Driver:
    """The few calls of the driver API that are needed (CUDA Driver API reference)."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(LIBRARY)

    def call(self, function: str, *arguments: Any) -> None:
        code = int(getattr(self._library, function)(*arguments))
        if code != 0:
            raise Refused(function, code, self._name(code))

    def _name(self, code: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorName(code, ctypes.byref(text))
        return text.value.decode() if text.value else "unknown"

    def number(self, function: str) -> int:
        found = ctypes.c_int()
        self.call(function, ctypes.byref(found))
        return found.value

    def try_context(self, index: int) -> None:
        """Create a context on a device, and give it back."""
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), index)
        self.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        self.call("cuCtxDestroy_v2", context)


class Refused(Exception):
    """A driver call that did not return CUDA_SUCCESS."""

    def __init__(self, function: str, code: int, name: str) -> None:
        super().__init__(function)
        self.error: CudaError = {"call": function, "code": code, "name": name}


def no_answer(why: Optional[str]) -> Cuda:
    """What is known of CUDA before it is asked, or where it does not answer."""
    return {
        "unknown": why,
        "opened": {},
        "version": None,
        "count": None,
        "library": None,
        "contexts": [],
        "error": None,
    }


def probe(indices: Optional[List[int]]) -> Cuda:
    """Contexts on the GPUs with these indices, on all for None. `error` is the first driver call
    that failed, None where all passed."""
    answer = no_answer(None)
    answer["opened"] = open_devices()
    try:
        driver = Driver()
    except OSError as error:
        answer["error"] = {"call": "dlopen", "code": None, "name": str(error)}
        return answer
    answer["library"] = LIBRARY
    try:
        driver.call("cuInit", 0)
        answer["version"] = driver.number("cuDriverGetVersion")
        answer["count"] = count = driver.number("cuDeviceGetCount")
        for index in range(count) if indices is None else indices:
            driver.try_context(index)
            answer["contexts"].append(index)
    except Refused as refused:
        answer["error"] = refused.error
    return answer


def main() -> None:
    """Entry of the child process; its last argument is the indices as JSON."""
    print(json.dumps(probe(json.loads(sys.argv[-1]))))
