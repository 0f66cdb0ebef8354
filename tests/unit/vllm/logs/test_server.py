"""Real logs of real failures: each gives one sentence, one next action and its decisive line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from deployctl.vllm.logs.causes import BUILD, SERVER
from deployctl.vllm.logs.lines import bare
from deployctl.vllm.logs.server import explain

CASES = Path(__file__).parents[3] / "cases"

# log, cause, a part of the sentence, a part of the first decisive line
RECORDED = [
    ("badflag", "unknown-option", "--no-such-flag", "unrecognized arguments"),
    ("badjson", "speculative-json", "not JSON", "cannot be converted"),
    ("badkey", "speculative-key", "bogus_key", "bogus_key: Unexpected keyword"),
    ("badmethod", "speculative-method", "drafting method", "Input should be"),
    ("df-badids", "layer-ids", "does not have", "expects 192 concatenated"),
    ("df-mixed", "mixed-sliding-window", "mixes sliding and full", "Model Runner V1"),
    ("df-nocfg", "mask-token-missing", "no mask_token_id", "For parallel drafting"),
    ("df-nomask", "mask-token-missing", "no mask_token_id", "For parallel drafting"),
    ("df-noids", "weights-mismatch", "[64, 192]", "Tried to load weights"),
    ("df-nonum", "draft-tokens-missing", "number of draft tokens", "num_speculative_tokens"),
    ("df-swanowin", "window-missing", "no window size", "requires a window size"),
    ("hostoom", "host-memory", "12.05 GiB", "Available memory on node 0"),
    ("kvsmall", "kv-cache", "1.0 GiB of 1.91 GiB", "To serve at least one request"),
    ("maxlen", "context-too-long", "999999 is more than the model's 2048", "max_model_len"),
    ("nodrafter", "drafter-path", "/srv/models/nodrafter", "Invalid repository ID"),
    ("nomodel", "model-path", "/srv/models/nope", "HFValidationError"),
    ("portinuse", "port-in-use", "in use by another program", "[Errno 98]"),
]


@pytest.mark.parametrize(("log", "cause", "sentence", "line"), RECORDED)
def test_recorded_failures(log: str, cause: str, sentence: str, line: str) -> None:
    text = (CASES / "vllm_cpu" / f"err-0.32.0-{log}.log").read_text(encoding="utf-8")
    said = explain(text)
    assert said.cause == cause
    assert sentence in said.sentence
    assert said.next
    assert line in said.lines[0]


def test_the_root_cause_comes_before_the_wrapper() -> None:
    text = (CASES / "vllm_cpu" / "err-0.32.0-kvsmall.log").read_text(encoding="utf-8")
    assert "Engine core initialization failed" in text
    assert not any("Engine core initialization" in line for line in explain(text).lines)


# One line from the field, and the cause that it names.
LINES = [
    (
        "ValueError: Free memory on device cuda:0 (8.88/121.69 GiB) on startup is less than desired"
        " GPU memory utilization (0.85, 103.44 GiB). Decrease GPU memory utilization or reduce GPU"
        " memory used by other processes.",
        "gpu-memory-held",
    ),
    ("torch.AcceleratorError: CUDA error: out of memory", "gpu-memory"),
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "gpu-memory",
    ),
    (
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): "
        "address already in use",
        "port-in-use",
    ),
    (
        "ImportError: .../vllm/_C.abi3.so: undefined symbol: "
        "_ZN5torch3jit17parseSchemaOrNameERKSsb",
        "extension-broken",
    ),
    (
        "misc/shmutils.cc:88 NCCL WARN Error: failed to extend /dev/shm/nccl-WU88OE to 9637892 "
        "bytes, error: No space left on device (28)",
        "shared-memory",
    ),
    (
        "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "nccl",
    ),
    ("Failed to initialize NVML: Driver/library version mismatch", "driver-mismatch"),
    ("RuntimeError: Found no NVIDIA driver on your system.", "no-driver"),
    (
        "importlib.metadata.PackageNotFoundError: No package metadata was found for vllm",
        "metadata-missing",
    ),
    (
        "ValueError: Model architectures ['DFlash9DraftModel'] are not supported for now.",
        "unknown-architecture",
    ),
    (
        "huggingface_hub.errors.GatedRepoError: 403 Client Error. Access to model "
        "z-lab/Qwen3.6-27B-DFlash is restricted and you are not in the authorized list.",
        "gated-model",
    ),
    ("ValueError: No available memory for the cache blocks.", "no-kv-cache"),
]


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_lines_from_the_field(line: str, cause: str) -> None:
    assert explain(f"INFO 11-30 00:00:00 [x.py:1] before\n{line}\n").cause == cause


def test_graph_capture_is_told_from_loading() -> None:
    text = (
        "INFO 06-19 23:05:30 [gpu_model_runner.py:1500] Capturing CUDA graphs: 40%\n"
        "(EngineCore pid=9) ERROR 06-19 23:05:35 [core.py:1] torch.OutOfMemoryError: CUDA out of "
        "memory. Tried to allocate 512.00 MiB.\n"
    )
    assert explain(text).cause == "gpu-memory-graphs"
    assert explain(text.split("\n", 1)[1]).cause == "gpu-memory"


def test_a_log_without_a_failure_says_nothing() -> None:
    said = explain((CASES / "vllm_cpu" / "log-0.32.0-ngram.txt").read_text().split("[shutdown]")[0])
    assert (said.cause, said.lines) == ("", ())


def test_an_unknown_failure_still_shows_its_decisive_line() -> None:
    said = explain(
        "(Worker pid=1) ERROR 11-30 00:31:38 [multiproc_executor.py:962] TypeError: surprise\n"
        "(APIServer pid=2) RuntimeError: Engine core initialization failed. See root cause above.\n"
    )
    assert (said.cause, said.lines) == ("", ("TypeError: surprise",))


def test_no_entry_is_written_twice() -> None:
    for table in (SERVER, BUILD):
        written = [(each.pattern.pattern, each.phase) for each in table]
        assert len(set(written)) == len(written)


def test_prefixes_are_taken_off() -> None:
    line = "(Worker pid=10910) ERROR 11-30 00:40:34 [multiproc_executor.py:953] ValueError: x"
    assert bare(line) == "ValueError: x"
    assert bare("(APIServer pid=3914) RuntimeError: y") == "RuntimeError: y"
    assert bare("INFO:     Application startup complete.") == "Application startup complete."


def test_a_long_log_of_captures_is_explained_at_once() -> None:
    line = "Capturing CUDA graphs (decode, FULL):  50%|#####     | 5/10 [00:01<00:01]\n"
    began = time.thread_time()
    assert explain(line * 14_000).cause == ""
    assert time.thread_time() - began < 2
    assert explain(f"INFO x\n{line}torch.OutOfMemoryError: CUDA out of memory.").cause == (
        "gpu-memory-graphs"
    )
