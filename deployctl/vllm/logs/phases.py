"""Where a starting vLLM is, read from its log. The deadline of a start follows these phases."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field

from deployctl.vllm.logs.lines import bare

PHASES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("configuring", r"non-default args:|Resolved architecture:"),
        ("starting the engine", r"Initializing a V1 LLM engine"),
        ("downloading", r"^Downloading |Fetching \d+ files|Time spent downloading weights"),
        ("loading weights", r"Starting to load model|checkpoint shards:|Loading weights took"),
        ("compiling", r"Dynamo bytecode transform|Compiling a graph|Start compiling"),
        ("sizing the cache", r"Available KV cache memory|KV cache size:"),
        ("capturing graphs", r"Capturing CUDA graph|Graph capturing finished"),
        ("warming up", r"Warming up"),
        ("starting the server", r"Starting vLLM (API )?server"),
        ("serving", r"Application startup complete"),
    )
)
"""A start's phases by the log lines that begin them (vLLM 0.19 to 0.33). A start need not go
through all of them, nor in this order: a CPU build warms up before it sizes its cache."""
MEMORY: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("weights", r"Starting to load model|checkpoint shards:|Loading drafter model"),
        ("profiling", r"Model loading took|Loading model weights took|model weights take"),
        ("cache", r"Available KV cache memory|KV cache size:|# (?:GPU|CUDA) blocks"),
        ("graphs", r"Capturing (?:CUDA ?graph|the model for CUDA|cudagraphs)"),
        ("sampler", r"Graph capturing finished"),
        ("serving", r"Application startup complete|init engine \(profile"),
    )
)
"""What a start spends GPU memory on, by the log lines after which it does. A phase ends where the
next begins: a line of it explains nothing later."""
FRAMES: tuple[tuple[str, frozenset[str]], ...] = (
    ("sampler", frozenset({"_dummy_sampler_run", "_dummy_pooler_run", "warmup_sampler"})),
    (
        "graphs",
        frozenset(
            {
                "capture_model",
                "_capture_cudagraphs",
                "capture_graphs",
                "capture_begin",
                "capture_end",
            }
        ),
    ),
    (
        "profiling",
        frozenset({"profile_run", "determine_available_memory", "determine_num_available_blocks"}),
    ),
    (
        "cache",
        frozenset(
            {
                "initialize_kv_cache",
                "initialize_kv_cache_tensors",
                "initialize_cache",
                "_allocate_kv_cache_tensors",
                "allocate_kv_cache",
                "_allocate_kv_cache",
                "initialize_from_config",
            }
        ),
    ),
    (
        "weights",
        frozenset(
            {
                "load_model",
                "load_weights",
                "initialize_model",
                "_init_model",
                "make_layers",
                "create_weights",
                "process_weights_after_loading",
            }
        ),
    ),
    ("serving", frozenset({"execute_model", "sample_tokens"})),
)
"""The same by functions of vLLM on the stack, innermost purpose first."""
_PHASE = re.compile("|".join(pattern.pattern for _, pattern in PHASES))
_MEMORY = re.compile("|".join(pattern.pattern for _, pattern in MEMORY))
BAR = re.compile(r"(?P<label>[^|]*?)\d+%\|[^|]*\|\s*(?P<done>[\d.]+)(?P<unit>[kMGT]?)i?B?/")
"""A progress bar as tqdm draws it: `label: 45%|####  | 5/11 [00:01<00:02]`."""
STEP = re.compile(r"^(?P<label>)\[(?P<done>\d+)(?P<unit>)/\d+\]")
"""A compiler's counter, as ninja prints it: `[3/40] …`."""
UNITS = {"": 0, "k": 1, "M": 2, "G": 3, "T": 4}
BARS = 200
"""Labels of bars that are followed; what draws ever new ones gets nowhere."""
_SHARDS = re.compile(r"checkpoint shards:.*?\|\s*(\d+)/(\d+)")
_CAPTURE = re.compile(r"Capturing CUDA graph.*?\|\s*(\d+)/(\d+)")


def phases_of(text: str) -> tuple[str, ...]:
    """The phases of a start that a line begins."""
    if not _PHASE.search(text):
        return ()
    return tuple(name for name, pattern in PHASES if pattern.search(text))


def memory_of(text: str) -> tuple[str, ...]:
    """What memory is taken for after a line."""
    if not _MEMORY.search(text):
        return ()
    return tuple(name for name, pattern in MEMORY if pattern.search(text))


@dataclass
class Startup:
    """Follows one start: feed it lines; `phase` is the last reached, `seconds` each took, `bars`
    how far each progress bar has come."""

    phase: str = "starting"
    detail: str = ""
    reached: dict[str, float] = field(default_factory=dict)
    bars: dict[str, float] = field(default_factory=dict)

    def feed(self, text: str, at: float) -> bool:
        """Take new log text, read at `at` seconds after the start; whether it shows progress: a
        phase reached for the first time, or a bar further than before. Words alone are none."""
        lines = re.split(r"[\r\n]+", text)
        return sum(self._line(line, at) for line in lines) > 0

    def _line(self, line: str, at: float) -> bool:
        said = bare(line)
        before = len(self.reached)
        for name in phases_of(said):
            if name not in self.reached:
                self.reached[name] = at
                self.phase, self.detail = name, ""
        for pattern in (_SHARDS, _CAPTURE):
            found = pattern.search(said)
            if found:
                self.detail = f"{found[1]} of {found[2]}"
        return self._advanced(said) or len(self.reached) > before

    def _advanced(self, said: str) -> bool:
        found = BAR.search(said) or STEP.search(said)
        if found is None:
            return False
        label = found["label"].strip()
        try:
            done = float(found["done"]) * 1000 ** UNITS[found["unit"]]
        except ValueError:
            return False
        if done <= self.bars.get(label, 0.0) or (len(self.bars) >= BARS and label not in self.bars):
            return False
        self.bars[label] = done
        return True

    def seconds(self, until: float) -> dict[str, float]:
        """How long each phase took, in the order reached."""
        marks = [*self.reached.items(), ("", until)]
        took = {"starting": marks[0][1]}
        for (name, begin), (_, end) in itertools.pairwise(marks):
            took[name] = end - begin
        return {name: round(seconds, 2) for name, seconds in took.items()}
