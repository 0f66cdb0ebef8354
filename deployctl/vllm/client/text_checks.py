"""Checks on the text of one answer, run as a program of its own: the standard library alone.

The text may be hostile: Python's compiler crashes or works for minutes on some, a profile's
expression may need exponential time. So this program limits itself, reads one JSON object
``{"text", "regex", "json_valid", "python_compiles", "seconds"}`` from its standard input, and
writes a JSON line before each check and one after it with what is wrong, or null.
"""

import io
import json
import re
import resource
import sys
import warnings
from collections.abc import Iterator
from typing import Any

MEMORY = 2 << 30
PYTHON = ("", "python", "py", "python3")
_FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})(.*)")
_END = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*")


def fenced_blocks(text: str) -> list[tuple[str, str]]:
    """Language and content of each fenced block, as CommonMark 0.31 defines them in section 4.5,
    indented to any depth (lists); one without a closing fence goes on to the end. Linear in the
    text."""
    blocks: list[tuple[str, str]] = []
    lines = iter(io.StringIO(text, newline=""))
    for line in lines:
        opening = _FENCE.fullmatch(line.rstrip("\r\n"))
        if opening and not ("`" in opening[3] and opening[2][0] == "`"):
            words = opening[3].split(maxsplit=1)
            content = "".join(_block(lines, opening[2], len(opening[1])))
            blocks.append((words[0].strip("{}.").lower() if words else "", content))
    return blocks


def code_blocks(text: str) -> list[str]:
    """The Python in an answer: fenced blocks, without interactive sessions; else all of it."""
    fenced = fenced_blocks(text)
    if not fenced:
        return [text]
    return [
        code
        for language, code in fenced
        if language in PYTHON and not code.lstrip().startswith(">>>")
    ]


def _block(lines: Iterator[str], fence: str, indent: int) -> Iterator[str]:
    for line in lines:
        end = _END.fullmatch(line.rstrip("\r\n"))
        if end and end[1][0] == fence[0] and len(end[1]) >= len(fence):
            return
        outside = len(line) - len(line.lstrip(" \t"))
        yield line[min(indent, outside) :]


def _regex_problem(text: str, pattern: str) -> str | None:
    return None if re.search(pattern, text) else f"does not match /{pattern}/"


def _json_problem(text: str) -> str | None:
    fenced = fenced_blocks(text)
    try:
        json.loads(fenced[0][1] if fenced else text)
    except (ValueError, RecursionError, MemoryError) as error:
        return f"not valid JSON: {error or type(error).__name__}"
    return None


def _python_problem(text: str) -> str | None:
    blocks = code_blocks(text)
    if not blocks:
        return "the Python does not compile: there is none in the answer"
    for code in blocks:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(code, "<answer>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return f"the Python does not compile: {error or type(error).__name__}"
    return None


def _checks(wanted: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    text = wanted["text"]
    for pattern in wanted["regex"]:
        yield f"the match of /{pattern}/", lambda pattern=pattern: _regex_problem(text, pattern)
    if wanted["json_valid"]:
        yield "whether it is JSON", lambda: _json_problem(text)
    if wanted["python_compiles"]:
        yield "whether the Python compiles", lambda: _python_problem(text)


def main() -> None:
    """Run the checks of one request, within limits that nothing raises again."""
    wanted = json.load(sys.stdin)
    seconds = wanted["seconds"]
    for limit, value in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    for name, check in _checks(wanted):
        print(json.dumps({"check": name}), flush=True)
        print(json.dumps({"problem": check()}), flush=True)


if __name__ == "__main__":
    main()
