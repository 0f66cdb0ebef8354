"""Options that this vLLM does not know, or that exclude each other."""

from __future__ import annotations

from deployctl.vllm.logs.causes.cause import Cause, cause

CAUSES: tuple[Cause, ...] = (
    cause(
        "unknown-option",
        "argparse",
        r"error: unrecognized arguments: (?P<options>.{0,400})",
        "this vLLM knows no option {options}",
        "fix serve.args in the profile; vllm serve --help=all lists what this version knows",
        on="line",
    ),
    cause(
        "invalid-option",
        "argparse",
        r"error: argument (?P<option>\S{1,80}?): (?P<why>(?:invalid|expected|not allowed|Value "
        r"|ambiguous|Invalid).{0,300})",
        "option {option}: {why}",
        "fix serve.args in the profile; vllm serve --help=all lists what this version takes",
        on="line",
    ),
    cause(
        "missing-option",
        "argparse",
        r"error: the following arguments are required: (?P<options>.{0,200})",
        "vLLM was called without {options}",
        "compare the command line with vllm serve --help",
        on="line",
    ),
    cause(
        "unknown-parser",
        "vLLM",
        r"(?:KeyError: ['\"]?)?[Ii]nvalid (?P<what>tool call parser|reasoning parser): "
        r"(?P<name>[^\s(]{1,80})|(?P<kind>[Rr]easoning parser"
        r"|[Tt]ool parser) '(?P<other>[^']{1,80})'"
        r" not found",
        "this vLLM has no {what/kind} {name/other}",
        "fix tool-call-parser or reasoning-parser in serve.args",
    ),
    cause(
        "chat-template",
        "vLLM, jinja2",
        r"supplied chat template string .{0,300}appears path-like|chat template \(.{0,300}\) "
        r"|jinja2\.exceptions\.\w{1,60}|looks like a file path, but (?:failed|it)"
        r"|Cannot use chat template functions because tokenizer\.chat_template is not set",
        "the chat template cannot be used",
        "fix chat-template in serve.args, or the model's chat_template",
    ),
    cause(
        "attention-backend",
        "vLLM",
        r"Selected backend (?P<name>\S{1,80}) is not valid for this configuration\. Reason: "
        r"(?P<why>[^\n]{1,200})|No valid attention backend found.{0,200}",
        "[the attention backend {name} cannot be used here: {why}|no attention backend can be "
        "used here]",
        "set another serve.attention_backend, or none",
    ),
    cause(
        "attention-backend",
        "vLLM",
        r"Head size (?P<size>\d+) is not supported by (?P<name>\w{1,40})"
        r"|(?:Unknown|Invalid|not a valid) attention backend:? ?'?(?P<other>\w{0,40})",
        "the attention backend cannot run this model",
        "set another serve.attention_backend, or none",
    ),
    cause(
        "batched-tokens",
        "vLLM",
        r"max_num_batched_tokens \((?P<given>\d+)\) (?:is smaller than max_model_len"
        r"|must be greater "
        r"than or equal to max_num_seqs) \((?P<other>\d+)\)",
        "max-num-batched-tokens {given} is less than {other}",
        "raise max-num-batched-tokens in serve.args to {other} or more",
    ),
    cause(
        "dtype",
        "vLLM",
        r"model type (?P<type>\S{1,60}) does not support float16|Unknown dtype: (?P<name>\S{1,40})",
        "the model does not run in this dtype",
        "remove serve.dtype, or set it to bfloat16",
    ),
    cause(
        "pipeline-parallel",
        "vLLM",
        r"Pipeline parallelism is not supported for this model",
        "this model cannot be split into pipeline stages",
        "remove pipeline-parallel-size from serve.args; use serve.tensor_parallel_size",
    ),
    cause(
        "multimodal-budget",
        "vLLM",
        r"max_tokens_per_mm_item \((?P<wanted>\d+)\) is larger than max_num_batched_tokens "
        r"\((?P<given>\d+)\)",
        "one image or clip takes {wanted} tokens, max-num-batched-tokens is {given}",
        "raise max-num-batched-tokens in serve.args, or set limit-mm-per-prompt",
    ),
    cause(
        "runner-unsupported",
        "vLLM",
        r"Model Runner V(?P<version>\d) does not (?:yet )?support: (?P<what>[^\n]{1,200})",
        "vLLM's model runner V{version} does not support {what}",
        "leave that option out, or choose the other runner (VLLM_USE_V2_MODEL_RUNNER in serve.env)",
    ),
    cause(
        "environment-variable",
        "vLLM",
        r"Unknown vLLM environment variable detected: (?P<name>\S{1,80})",
        "this vLLM knows no variable {name}",
        "remove it from serve.env",
    ),
    cause(
        "invalid-config",
        "vLLM (pydantic)",
        r"for (?P<config>\w{1,60}Config)\n(?P<key>[^\s:]{1,100}): (?P<why>(?:Unexpected keyword"
        r"|Input "
        r"should|Extra inputs|Field required)[^\n\[]{0,200})",
        "{config}: {key}: {why}",
        "fix that key in serve.args",
    ),
)
