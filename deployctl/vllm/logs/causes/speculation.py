"""Drafters: their config against target and vLLM, and the speculative options."""

from __future__ import annotations

from deployctl.vllm.logs.causes.cause import Cause, cause

CAUSES: tuple[Cause, ...] = (
    cause(
        "speculative-json",
        "argparse",
        r"argument --speculative-config\S{0,20}: Value (?P<value>.{0,400}) cannot be converted",
        "the speculative config is not JSON: {value}",
        "fix drafter.speculative in the profile",
        on="line",
    ),
    cause(
        "speculative-key",
        "vLLM (pydantic)",
        r"for SpeculativeConfig\n(?P<key>[^\s:]{1,100}): Unexpected keyword argument",
        "this vLLM knows no key {key} of the speculative config",
        "remove it from drafter.speculative in the profile",
    ),
    cause(
        "speculative-method",
        "vLLM (pydantic)",
        r"for SpeculativeConfig\nmethod: Input should be|Unsupported speculative method: "
        r"'(?P<method>[^']{1,60})'",
        "this vLLM does not know the drafting method",
        "choose another drafter.method, or build a vLLM that has it",
    ),
    cause(
        "draft-tokens-missing",
        "vLLM",
        r"`?num_speculative_tokens`? (?:was not provided|must be provided)",
        "the number of draft tokens is missing",
        "set drafter.num_speculative_tokens in the profile",
    ),
    cause(
        "draft-tokens-multiple",
        "vLLM",
        r"num_speculative_tokens:(?P<given>\d+) must be divisible by n_predict=(?P<of>\d+)",
        "{given} draft tokens are not a multiple of the drafter's {of}",
        "set drafter.num_speculative_tokens to a multiple of {of}",
    ),
    cause(
        "mixed-sliding-window",
        "vLLM",
        r"does not support: mixed sliding/full dflash drafts|"
        r"mixed sliding/full attention require",
        "this vLLM's model runner cannot run a drafter that mixes sliding and full attention",
        "use the V2 runner (a GPU, vLLM 0.26 or newer, no VLLM_USE_V2_MODEL_RUNNER=0), "
        "or a drafter with one kind of layer",
    ),
    cause(
        "mask-token-missing",
        "vLLM",
        r"For parallel drafting, the draft model config must have|"
        r"argument 'parallel_drafting_token_id' but instead found type 'NoneType'",
        "the drafter's config has no mask_token_id",
        "set drafter.config: dflash_config.mask_token_id to the value on the model's card",
    ),
    cause(
        "layer-ids",
        "vLLM",
        r"drafter expects (?P<wanted>\d+) concatenated aux hidden features but received "
        r"(?P<given>\d+)",
        "the drafter reads layers that the target does not have ({given} features of {wanted})",
        "fix drafter.config: dflash_config.target_layer_ids",
    ),
    cause(
        "window-missing",
        "vLLM",
        r"sliding attention requires a window size|requires a window size configured in",
        "the drafter has sliding-window layers and no window size",
        "set drafter.config: sliding_window to the value on the model's card",
    ),
    cause(
        "drafter-vocabulary",
        "vLLM",
        r"Target and draft model should have the same vocabulary size\. Target model vocab_size="
        r"(?P<target>\d+)\. Draft model vocab_size=(?P<draft>\d+)",
        "target and drafter have different vocabularies: {target} and {draft} tokens",
        "choose a drafter that was made for this target",
    ),
    cause(
        "drafter-parallel",
        "vLLM",
        r"speculative_draft_tensor_parallel_size=(?P<given>\d+) cannot be other value than",
        "the drafter cannot run on {given} GPUs beside this target",
        "remove draft_tensor_parallel_size from drafter.speculative in the profile",
    ),
)
