"""Models: what their configs, tokenizers and code say."""

from __future__ import annotations

from deployctl.vllm.logs.causes.cause import Cause, cause

CAUSES: tuple[Cause, ...] = (
    cause(
        "config-missing",
        "transformers, vLLM",
        r"does not appear to have a file named (?P<file>\S{1,120}?)\.? |"
        r"Could not detect config format for no config file found|No such file or directory: "
        r"'[^']{0,300}config\.json'|Entry Not Found for url: \S{0,200}config\.json",
        "the model has no [{file}|config.json that can be read]",
        "look at the model's folder: an upload or download may be incomplete (deployctl fetch)",
    ),
    cause(
        "config-json",
        "transformers, json",
        r"config file at '(?P<path>[^']{1,300})' is not a valid JSON file|JSONDecodeError: "
        r"(?P<why>[^\n]{1,120})",
        "a config of the model is not JSON: {path/why}",
        "look at the file; fetch the model again if it was cut off (deployctl fetch)",
    ),
    cause(
        "remote-code",
        "transformers, vLLM",
        r"requires you to execute (?:the|custom) (?:configuration|code|modeling)|Please (?:set"
        r"|pass)"
        r" the (?:option|argument) `trust_remote_code=True`"
        r"|consider setting `trust_remote_code=True`"
        r"|contains custom code which must be executed",
        "the model brings code of its own, which is not allowed to run",
        "read that code, then set trust-remote-code: true in serve.args",
    ),
    cause(
        "remote-code-packages",
        "transformers",
        r"requires the following packages that were not found in your environment: "
        r"(?P<packages>[^\n]{1,200}?)\. Run|Missing requirements in your local environment",
        "the model's own code needs packages that are not installed[: {packages}]",
        "add them to build.extra in the profile, and build again",
    ),
    cause(
        "transformers-too-old",
        "transformers",
        r"model type `(?P<type>[^`]{1,80})` but Transformers does not recognize this architecture"
        r"|requires? (?:a )?(?:newer|transformers|Transformers).{0,40}(?:version|>=|or later)"
        r"|KeyError: '(?P<key>[a-z0-9_]{2,40})'[^\n]{0,10}\n?.{0,80}CONFIG_MAPPING",
        "the installed transformers [does not know the model type {type/key}|is too old for "
        "the model]",
        "build a newer vLLM, or add a newer transformers to build.extra",
    ),
    cause(
        "tokenizer-class",
        "transformers",
        r"Tokenizer class (?P<name>'?\w{1,80}'?) (?:does not exist|is not currently imported"
        r"|specified in)",
        "the installed transformers has no tokenizer class {name}",
        "add the transformers that saved the model to build.extra, "
        "or fix tokenizer_class in its tokenizer_config.json",
    ),
    cause(
        "tokenizer",
        "transformers, tokenizers",
        r"Couldn't instantiate the backend tokenizer|Can't load tokenizer for "
        r"'(?P<path>[^']{1,300})'"
        r"|data did not match any variant of untagged enum|Unable to load vocabulary from file"
        r"|Failed to load the tokenizer|Unrecognized configuration class .{0,200}AutoTokenizer"
        r"|expected value at line \d+ column \d+|sentencepiece.{0,80}(?:required|not found)"
        r"|No such file or directory: '[^']{0,300}tokenizer[^']{0,60}'",
        "the model's tokenizer cannot be loaded",
        "compare its tokenizer files with the model's page: some may be missing, or need a newer "
        "transformers (build.extra)",
    ),
    cause(
        "processor",
        "transformers",
        r"Can't load (?:image processor|feature extractor|processor) for|Unrecognized (?:image "
        r"processor|processing class|feature extractor|video processor)",
        "the model's processor for images or sound cannot be loaded",
        "compare its files with the model's page (preprocessor_config.json), "
        "or add a newer transformers to build.extra",
    ),
    cause(
        "rope-scaling",
        "transformers, vLLM",
        r"`?rope_(?:scaling|parameters)`? must be a dictionary|Missing required keys in "
        r"`rope_(?:scaling|parameters)`|KeyError: '(?:rope_)?type'|Unknown RoPE scaling type",
        "the config's rope_scaling is not as this transformers reads it",
        "build a newer vLLM, or set hf-overrides in serve.args",
    ),
    cause(
        "unknown-architecture",
        "vLLM",
        r"[Mm]odel architectures? \[?'?(?P<name>\w{1,100})'?\]?.{0,80}"
        r"(?:not supported|failed to be inspected)|Cannot find model module\. "
        r"'?(?P<module>\w{1,100})",
        "the built vLLM knows no architecture {name/module}",
        "build a version that has it, or fix the config's architectures",
    ),
    cause(
        "no-architecture",
        "vLLM",
        r"No model architectures are specified|argument of type 'NoneType' is not iterable"
        r"|Unrecognized model in (?P<path>\S{1,300})\. Should have a `model_type`"
        r"|'NoneType' object is not iterable.{0,80}architectures",
        "the model's config names no architecture or model type",
        "compare config.json with the model's page",
    ),
    cause(
        "config-field",
        "transformers, vLLM",
        r"'(?P<config>\w{1,60}Config)' object has no attribute '(?P<name>\w{1,60})'"
        r"|does not have `num_attention_heads` attribute"
        r"|Could not determine the number of key-value",
        "the model's config has no [{name}|number of attention heads], which this vLLM reads",
        "compare config.json with the model's page; the model may need another version of vLLM or "
        "transformers",
    ),
)
