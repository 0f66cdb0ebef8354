"""Why a vLLM did not start or died: its log's decisive lines, and known failures in one sentence.

An engine's failure ends in "Engine core initialization failed. See root cause above": the cause
is the first exception that is not such a wrapper, often in another process's lines above.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """A failure that is known: what its log says, a sentence about it, and what to do next.

    `{name}` in the texts stands for a named group of the pattern. `whole` means that the pattern
    needs what stands around the decisive lines.
    """

    name: str
    pattern: re.Pattern[str]
    sentence: str
    next: str
    whole: bool = False


@dataclass(frozen=True)
class Explanation:
    """What a log says about a failure; `cause` names it in KNOWN, empty where it is not there."""

    cause: str
    sentence: str
    next: str
    lines: tuple[str, ...]


def _known(name: str, pattern: str, sentence: str, next: str, whole: bool = False) -> Known:
    return Known(name, re.compile(pattern), sentence, next, whole)


KNOWN: tuple[Known, ...] = (
    _known(
        "port-in-use",
        r"\[Errno 98\]",
        "the port is in use by another program",
        "find it with: ss -ltnp; stop it, or give the profile another serve.port",
    ),
    _known(
        "drafter-path",
        r"Invalid repository ID or local directory specified: '(?P<path>[^']*)'",
        "there is no model in {path}",
        "mend drafter.model or model in the profile, then run again",
    ),
    _known(
        "gated-model",
        r"GatedRepoError|[Aa]ccess to (?:model|this model) .{0,200}is restricted|"
        r"You are trying to access a gated repo",
        "the model is gated and the token given has no access to it",
        "ask for access on its page, and name the token in serve.secrets: HF_TOKEN",
    ),
    _known(
        "model-path",
        r"HFValidationError: .*: '(?P<path>[^']*)'",
        "there is no model in {path}",
        "mend model in the profile, then run again",
    ),
    _known(
        "speculative-json",
        r"argument --speculative-config\S*: Value (?P<value>.*) cannot be converted",
        "the speculative config is not JSON: {value}",
        "mend drafter.speculative in the profile",
    ),
    _known(
        "unknown-option",
        r"error: unrecognized arguments: (?P<options>.*)",
        "this vLLM knows no option {options}",
        "mend serve.args in the profile; vllm serve --help=all lists what this version knows",
    ),
    _known(
        "speculative-key",
        r"for SpeculativeConfig\s*\n(?P<key>\S+)\s*\n\s*Unexpected keyword argument",
        "this vLLM knows no key {key} of the speculative config",
        "remove it from drafter.speculative in the profile",
    ),
    _known(
        "speculative-method",
        r"for SpeculativeConfig\s*\nmethod\s*\n\s*Input should be",
        "this vLLM does not know the drafting method",
        "choose another drafter.method, or build a vLLM that has it",
    ),
    _known(
        "draft-tokens-missing",
        r"`?num_speculative_tokens`? was not provided",
        "the number of draft tokens is missing",
        "set drafter.num_speculative_tokens in the profile",
    ),
    _known(
        "mixed-sliding-window",
        r"does not support: mixed sliding/full dflash drafts|"
        r"mixed sliding/full attention require",
        "this vLLM's model runner cannot run a drafter that mixes sliding and full attention",
        "use the V2 runner (a GPU, vLLM 0.26 or newer, no VLLM_USE_V2_MODEL_RUNNER=0), "
        "or a drafter with one kind of layer",
    ),
    _known(
        "mask-token-missing",
        r"For parallel drafting, the draft model config must have|"
        r"argument 'parallel_drafting_token_id' but instead found type 'NoneType'",
        "the drafter's config has no mask_token_id",
        "set drafter.config: dflash_config.mask_token_id to the value on the model's card",
    ),
    _known(
        "layer-ids",
        r"drafter expects (?P<wanted>\d+) concatenated aux hidden features but received "
        r"(?P<given>\d+)",
        "the drafter reads layers that the target does not have ({given} features of {wanted})",
        "mend drafter.config: dflash_config.target_layer_ids",
    ),
    _known(
        "weights-mismatch",
        r"Tried to load weights of size (?P<have>.+?)\s*to a parameter of size (?P<want>.+)",
        "the weights do not fit the config: {have} against {want}",
        "look at the drafter's target_layer_ids and sizes: deployctl drafter check",
    ),
    _known(
        "window-missing",
        r"sliding attention requires a window size",
        "the drafter has sliding-window layers and no window size",
        "set drafter.config: sliding_window to the value on the model's card",
    ),
    _known(
        "unknown-architecture",
        r"[Mm]odel architectures? \[?'?(?P<name>\w+)'?\]?.{0,80}"
        r"(?:not supported|failed to be inspected)",
        "the built vLLM knows no architecture {name}",
        "build a version that has it, or mend the config's architectures",
    ),
    _known(
        "context-too-long",
        r"User-specified max_model_len \((?P<wanted>\d+)\) is greater than the derived "
        r"max_model_len \(\w+=(?P<most>\d+)",
        "max_model_len {wanted} is more than the model's {most}",
        "lower serve.max_model_len in the profile",
    ),
    _known(
        "kv-cache",
        r"max seq len \((?P<length>\d+)\),? \(?(?P<needed>[\d.]+ GiB) KV cache is needed, which is "
        r"larger than the available KV cache memory \((?P<there>[\d.]+ GiB)\)",
        "the KV cache is too small for {length} tokens: {there} of {needed}",
        "lower serve.max_model_len or raise serve.gpu_memory_utilization "
        "(VLLM_CPU_KVCACHE_SPACE on a CPU)",
    ),
    _known(
        "no-kv-cache",
        r"No available memory for the cache blocks",
        "the weights leave no memory for the KV cache",
        "raise serve.gpu_memory_utilization, or use more GPUs (serve.tensor_parallel_size)",
    ),
    _known(
        "host-memory",
        r"Available memory on node \d+ \((?P<there>[\d.]+)/[\d.]+ GiB\).*?"
        r"(?:less than requested memory for kv \((?P<wanted>[\d.]+ GiB)|desired CPU memory)",
        "the host has not enough free memory: {there} GiB",
        "lower VLLM_CPU_KVCACHE_SPACE in serve.env, or free memory on the host",
    ),
    _known(
        "gpu-memory-held",
        r"Free memory on device (?P<device>\S+) \((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on "
        r"startup is less than desired GPU memory utilization",
        "only {free} of {total} GiB are free on {device} before anything was loaded",
        "see who holds it: deployctl clean --plan; or lower serve.gpu_memory_utilization",
    ),
    _known(
        "gpu-memory-graphs",
        # The group is atomic: every later line of a capture would look through the rest again.
        r"(?s)\A(?>.*?(?:[Cc]aptur\w+ (?:CUDA )?graph|capture_model)).*out of memory",
        "the GPU ran out of memory while capturing graphs",
        "lower serve.gpu_memory_utilization or max-num-seqs, or set enforce-eager: true",
        whole=True,
    ),
    _known(
        "gpu-memory",
        r"CUDA (?:error: )?out of memory|OutOfMemoryError",
        "the GPU ran out of memory",
        "lower serve.max_model_len, use more GPUs, or see who holds memory: deployctl clean --plan",
    ),
    _known(
        "shared-memory",
        r"/dev/shm/nccl\S*|shared memory.*No space left|posix_fallocate failed",
        "/dev/shm is too small for NCCL",
        "give the container a larger /dev/shm (lxc.mount.entry with size=), at least 1 GiB",
    ),
    _known(
        "nccl",
        r"NCCL error: (?P<why>.*)",
        "the GPUs could not talk to each other: NCCL {why}",
        "set NCCL_DEBUG: INFO in serve.env and run again for its own words",
    ),
    _known(
        "driver-mismatch",
        r"Driver/library version mismatch|API mismatch: the client has",
        "driver library and kernel module differ on the host",
        "give the container the node's driver version, or reboot after a driver update",
    ),
    _known(
        "no-driver",
        r"Found no NVIDIA driver|CUDA (?:unknown )?error.{0,40}999|no CUDA-capable device",
        "CUDA does not work on the host",
        "look at the device nodes and the driver: deployctl doctor",
    ),
    _known(
        "metadata-missing",
        r"PackageNotFoundError: No package metadata was found for (?P<name>\S+)",
        "the environment lacks the metadata of {name}",
        "build it again: deployctl build",
    ),
    _known(
        "extension-broken",
        r"(?:undefined symbol: (?P<symbol>\S+))",
        "a compiled module of vLLM does not fit the torch beside it ({symbol})",
        "build vLLM again for this torch: deployctl build",
    ),
    _known(
        "engine-died",
        r"EngineDeadError|EngineCore encountered an issue",
        "the engine died behind a live API server",
        "read what the engine said before: deployctl logs",
    ),
)

_WRAPPERS = re.compile(
    r"Engine core initialization failed|WorkerProc initialization failed|EngineDeadError|"
    r"Worker failed with error|EngineCore encountered an issue|Executor failed|"
    r"validation error for|Error retrieving file list"
)
_EXCEPTION = re.compile(
    r"^(?:[\w.]*\.)?(?:\w*(?:Error|Exception|Interrupt))(?::|$)|^[\w .]*: error: "
    r"|^ERROR: |^OSError"
)
_PREFIX = re.compile(
    r"^\((?P<who>\w+)[^)]*\)\s+(?:[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?)?"
    r"|^[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?"
)
_VALUE_ERROR = re.compile(r"^\s+(?:Value error|Unexpected keyword|Input should be)")


def bare(line: str) -> str:
    """A log line without the process and logger that vLLM puts before it."""
    return _PREFIX.sub("", line.rstrip("\r"), count=1)


def decisive(text: str, most: int = 6) -> tuple[str, ...]:
    """The lines that say why, first cause first, wrappers and repetitions left out."""
    found: list[str] = []
    wrapped: list[str] = []
    lines = [bare(line) for line in text.split("\n")]
    for index, line in enumerate(lines):
        if _VALUE_ERROR.match(line):
            above = lines[index - 1].strip()
            said = line.strip()[:400]
            found.append(said if "validation error" in above else f"{above}: {said}")
        elif _EXCEPTION.match(line):
            (wrapped if _WRAPPERS.search(line) else found).append(line.strip()[:400])
    return tuple(dict.fromkeys(found or wrapped))[:most]


def explain(text: str, known: Sequence[Known] = KNOWN) -> Explanation:
    """What a log says about a failure. Decisive lines are read before the rest of the log."""
    lines = decisive(text)
    decided, whole = "\n".join(lines), "\n".join(bare(line) for line in text.split("\n"))
    for failure, part in [
        *((failure, whole if failure.whole else decided) for failure in known),
        *((failure, whole) for failure in known),
    ]:
        match = failure.pattern.search(part)
        if match:
            groups = {key: value or "?" for key, value in match.groupdict().items()}
            return Explanation(
                failure.name,
                failure.sentence.format(**groups),
                failure.next.format(**groups),
                lines or (match[0][:400],),
            )
    return Explanation("", "", "", lines)
