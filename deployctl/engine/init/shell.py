"""A server's command line in a shell command or script, `docker run` included.

Assignments, `export` and `${NAME:-default}` are followed; anything else of the shell (functions,
substitutions, conditions) is not run, and a value that needs it is reported.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from deployctl.engine.init.given import Given, nothing

PREFIXES = {"exec", "nohup", "time", "sudo", "setsid", "nice", "command", "stdbuf"}
ENDS = re.compile(r"^(\d?>>?|&>>?|<|\d?>&\d)")
API_SERVER = "vllm.entrypoints.openai.api_server"
DOCKER = ("docker", "podman", "nerdctl")
DOCKER_SWITCHES = {"-d", "--detach", "--rm", "-i", "-t", "-it", "-ti", "--init", "--privileged",
                   "--read-only", "-itd", "-dit", "--interactive", "--tty", "--replace",
                   "-P", "--publish-all", "--no-healthcheck", "--oom-kill-disable"}  # fmt: skip
VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?[-=]([^}]*))?\}|(\w+))")


def read(text: str, source: str) -> Given:
    """The first server that a command line or a script starts; raises `UsageError`."""
    variables: dict[str, str] = {}
    for words in _commands(text):
        assigned = _assignments(words)
        if assigned is not None:
            variables |= {name: _expanded(value, variables) for name, value in assigned.items()}
            continue
        found = of_words(words, variables)
        if found is not None:
            return found
    raise nothing(source, "no line runs `vllm serve`, vLLM's API server or a container with it")


def of_words(words: Sequence[str], variables: Mapping[str, str]) -> Given | None:
    """The server that one simple command starts; None for another program."""
    env: dict[str, str] = {}
    rest = list(words)
    while rest and (rest[0] in PREFIXES or rest[0] == "env" or _is_assignment(rest[0])):
        word = rest.pop(0)
        if _is_assignment(word):
            name, _, value = word.partition("=")
            env[name] = _expanded(value, variables)
    known = {**variables, **env}
    words = [expanded for word in rest for expanded in _word(word, known)]
    notes = sorted({f"${name} has no value here" for word in words for name in _unknown(word)})
    if words and words[0].rpartition("/")[2] in DOCKER:
        return _container(words, env, notes)
    at = served(words)
    if at is None:
        return None
    program = words[0] if "/" in words[0] and words[0].endswith("/vllm") else None
    env = {**{n: v for n, v in variables.items() if n.startswith(("VLLM_", "CUDA_", "HF_"))}, **env}
    return Given(words[at:], env, program, notes=notes)


def _commands(text: str) -> Iterator[list[str]]:
    """Simple commands of a script: lines joined at `\\`, parted at `;`, `&`, `&&`, `||` and `|`."""
    joined = re.sub(r"\\\r?\n", " ", text)
    lexer = shlex.shlex(joined, posix=True, punctuation_chars=";&|\n")
    lexer.whitespace, lexer.whitespace_split = " \t\r", True
    words: list[str] = []
    cut = False
    try:
        for token in lexer:
            if set(token) <= set(";&|\n"):
                if words:
                    yield words
                words, cut = [], False
            elif cut or ENDS.match(token):
                # What follows a redirection is its file; a server's options end there.
                cut = True
            else:
                words.append(token)
    except ValueError:
        return
    if words:
        yield words


def _assignments(words: Sequence[str]) -> dict[str, str] | None:
    given = list(words[1:] if words[0] in ("export", "declare", "local", "set") else words)
    if not given or not all(_is_assignment(word) for word in given):
        return None
    return {name: value for name, _, value in (word.partition("=") for word in given)}


def _is_assignment(word: str) -> bool:
    return re.match(r"[A-Za-z_]\w*=", word) is not None


def _word(word: str, variables: Mapping[str, str]) -> list[str]:
    """A word expanded; a variable that holds several words stands for all of them."""
    text = _expanded(word, variables)
    if VARIABLE.fullmatch(word) and text != word:
        return shlex.split(text)
    return [text]


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        if name in variables:
            return variables[name]
        return match[2] if match[2] is not None else match[0]

    return VARIABLE.sub(value, text)


def _unknown(word: str) -> list[str]:
    return [match[1] or match[3] for match in VARIABLE.finditer(word)]


def served(words: Sequence[str]) -> int | None:
    """Where the server's own arguments begin in a command line; None where it starts none."""
    for index, word in enumerate(words):
        name = word.rpartition("/")[2]
        if name == "vllm" and words[index + 1 : index + 2] == ["serve"]:
            return index + 2
        if word == "-m" and words[index + 1 : index + 2] == [API_SERVER]:
            return index + 2
        if name == "api_server.py":
            return index + 1
    return None


def _container(words: Sequence[str], env: Mapping[str, str], notes: Sequence[str]) -> Given | None:
    """`docker run`: the image's entry point is the server, or its arguments name it."""
    if "run" not in words:
        return None
    found, given = dict(env), list(words[words.index("run") + 1 :])
    gpus: str | None = None
    more = list(notes)
    while given and given[0].startswith("-"):
        name, equals, value = given.pop(0).partition("=")
        if name in DOCKER_SWITCHES:
            continue
        value = value if equals else (given.pop(0) if given else "")
        if name in ("-e", "--env") and "=" in value:
            variable, _, text = value.partition("=")
            found[variable] = text
        elif name == "--env-file":
            more.append(f"variables of {value} are not read")
        elif name in ("-p", "--publish") and _moved(value):
            more.append(f"the container's port is published as {value}: the profile has its own")
        elif name == "--gpus":
            gpus = value
    if not given or "vllm" not in " ".join(given):
        return None
    image, arguments = given[0], given[1:]
    at = served(arguments)
    argv = arguments if at is None else arguments[at:]
    return Given(argv, found, None, image, devices(gpus), more)


def _moved(published: str) -> bool:
    """Whether Docker's `[ADDRESS:]PORT:PORT` gives a port another number."""
    *_, outside, inside = ["", *published.split(":")]
    return bool(outside) and outside != inside


def devices(text: str | None) -> list[int] | None:
    """GPU indices of Docker's `--gpus '"device=0,1"'`; None where it names none."""
    numbers = re.search(r"device=([\d,]+)", text or "")
    return [int(one) for one in numbers[1].split(",") if one] if numbers else None
