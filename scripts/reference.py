"""The reference pages and the picture of the packages, generated from the code itself.

`scripts/docs` runs it before it builds the site; the argument is the folder to write.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.main import get_command

from deployctl.cli.app import app
from deployctl.config.host import HostSettings
from deployctl.config.playbook import Playbook
from deployctl.config.profile import Profile
from deployctl.errors import DeployError
from deployctl.steps import registry
from deployctl.vllm.fixes.registry import by_name

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "deployctl"
LAYERS = (
    ("cli",),
    ("report",),
    ("engine",),
    ("steps",),
    ("hosts",),
    ("config",),
    ("vllm",),
    ("agent",),
)


def cell(text: object) -> str:
    """Text as it may stand in a table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    """A table of Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell(one) for one in line) + " |" for line in lines) + "\n"


def kind(schema: Mapping[str, Any]) -> str:
    """A value's type in words."""
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(filter(None, map(kind, schema["anyOf"]))))
    if schema.get("type") == "array":
        return f"list of {kind(schema['items'])}" if schema.get("items") else "list"
    if "$ref" in schema:
        return "mapping"
    words = {"integer": "whole number", "object": "mapping", "null": "", "string": "text"}
    return words.get(schema.get("type", ""), schema.get("type", "any value"))


def keys(schema: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Every key of a model's schema: path, type, default, what it is for."""
    defs = schema.get("$defs", {})
    top = schema.get("$ref", "").rpartition("/")[2]
    yield from _below(defs[top] if top else schema, defs, before, (top or HOST,))


def _below(
    schema: Mapping[str, Any], defs: Mapping[str, Any], before: str, seen: tuple[str, ...]
) -> Iterator[tuple[str, str, str, str]]:
    for name, found in schema.get("properties", {}).items():
        path = f"{before}{name}"
        default = found.get("default")
        shown = "required" if name in schema.get("required", []) else ""
        if default not in (None, "", [], {}) and not isinstance(default, dict):
            shown = f"`{default}`".replace("True", "true").replace("False", "false")
        yield f"`{path}`", kind(found), shown, found.get("description", "")
        for reference, end in _references(found):
            if reference not in seen:
                yield from _below(defs[reference], defs, f"{path}{end}.", (*seen, reference))


def _references(schema: Mapping[str, Any], end: str = "") -> Iterator[tuple[str, str]]:
    if "$ref" in schema:
        yield schema["$ref"].rpartition("/")[2], end
    for inner in schema.get("anyOf", ()):
        yield from _references(inner, end)
    if isinstance(schema.get("items"), dict):
        yield from _references(schema["items"], f"{end}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _references(schema["additionalProperties"], f"{end}.NAME")


HOST = "HostSettings"
"""Has a page of its own."""
KEY_HEAD = ("key", "value", "default", "meaning")


def profile() -> str:
    text = "# Profile keys\n\nA profile is a YAML file. `NAME` stands for a key of your choice, "
    text += "`[]` for each item of a list. How values are looked up: [Profiles](../profiles.md).\n"
    sections: dict[str, list[tuple[str, str, str, str]]] = {}
    for row in keys(Profile.model_json_schema(by_alias=True)):
        sections.setdefault(re.split(r"[.\[`]", row[0])[1], []).append(row)
    single = [rows[0] for rows in sections.values() if len(rows) == 1]
    text += "\n## Top level\n\n" + table(KEY_HEAD, single)
    for name, rows in sections.items():
        if len(rows) > 1:
            text += f"\n## {name}\n\n" + table(KEY_HEAD, rows)
    return text


def host() -> str:
    text = "# Host keys\n\nA host file names one way to a machine: "
    text += "[Hosts](../profiles.md#hosts).\n\n"
    return text + table(KEY_HEAD, keys(HostSettings.model_json_schema(by_alias=True)))


def playbooks() -> str:
    import yaml

    rows = []
    for path in sorted((ROOT / "playbooks").glob("*.yaml")):
        found = yaml.safe_load(path.read_text("utf-8"))
        steps = " ".join(s if isinstance(s, str) else s["step"] for s in found["steps"])
        rows.append((f"`{found['name']}`", found.get("description", ""), steps))
    text = (
        "# Playbooks\n\nA playbook is an ordered list of steps. `deployctl up` runs the profile's "
    )
    text += "own, `deployctl run NAME` any other.\n\n" + table(("name", "does", "steps"), rows)
    text += "\n## Keys\n\n"
    return text + table(KEY_HEAD, keys(Playbook.model_json_schema(by_alias=True)))


PHASES = {
    "stage": "Prepares beside the serving release.",
    "switch": "Replaces the serving release.",
    "gate": "A release must pass it to become current.",
}


def steps() -> str:
    text = "# Steps\n\n"
    text += table(
        ("step", "phase", "failure"),
        (
            (f"[{s.name}](#{s.name})", s.phase, f"exit {s.failure.exit_code}")
            for s in registry.steps().values()
        ),
    )
    for step in registry.steps().values():
        module = sys.modules[type(step).__module__]
        described = (module.__doc__ or "").strip()
        described = described.removeprefix(f"{step.name}: ")
        paragraphs = [" ".join(part.split()) for part in described.split("\n\n")]
        paragraphs[0] = paragraphs[0][:1].upper() + paragraphs[0][1:]
        text += f"\n## {step.name}\n\n{PHASES[step.phase]} " + "\n\n".join(paragraphs) + "\n"
        rows = list(keys(step.options.model_json_schema(by_alias=True)))
        if rows:
            text += "\n" + table(("option", *KEY_HEAD[1:]), rows)
    return text


MEANINGS = {
    0: "done, or nothing to do",
    10: "failed, and the previous release was restored",
    12: "`plan --detailed-exitcode`: there are changes",
}


def exit_codes() -> str:
    codes = dict.fromkeys(MEANINGS, "")
    classes: dict[int, list[type[DeployError]]] = {}
    for one in _errors(DeployError):
        classes.setdefault(one.exit_code, []).append(one)
    for code, found in classes.items():
        first = (found[0].__doc__ or "").strip().split("\n\n")[0]
        codes[code] = " ".join(first.split())
    codes[1] = "Internal error. Its traceback is in a file that the message names."
    rows = [(f"**{code}**", MEANINGS.get(code) or codes[code]) for code in sorted(codes)]
    text = "# Exit codes\n\nWith several hosts, that of the profile's first failed one.\n\n"
    return text + table(("code", "meaning"), rows)


def _errors(one: type[DeployError]) -> Iterator[type[DeployError]]:
    yield one
    for below in one.__subclasses__():
        if below.__module__ == DeployError.__module__:
            yield from _errors(below)


def commands() -> str:
    text = "# Commands\n\nEvery command has `--help`.\n"
    for path, command in _commands(get_command(app), ("deployctl",)):
        text += f"\n## {' '.join(path)}\n\n" + (command.help or "").strip() + "\n\n"
        usage = [p for p in command.params if p.param_type_name == "argument"]
        options = [p for p in command.params if p.param_type_name == "option"]
        rows = [(f"`{(p.metavar or p.name).upper()}`", getattr(p, "help", "") or "") for p in usage]
        for option in options:
            names = ", ".join(f"`{name}`" for name in option.opts + option.secondary_opts)
            if names != "`--help`, `-h`":
                rows.append((names, getattr(option, "help", "") or ""))
        if rows:
            text += table(("argument or option", "meaning"), rows)
    return text


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", None)
    if inner is None or getattr(command, "invoke_without_command", False):
        yield path, command
    for name, one in (inner or {}).items():
        yield from _commands(one, (*path, name))


def documents() -> str:
    """The schemas of the JSON documents, each with the module that defines it."""
    found: dict[str, str] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        about = (ast.get_docstring(tree) or "").split("\n\n")[0]
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                match = re.fullmatch(r"deployctl\.[a-z-]+/\d+", node.value)
                if match:
                    found.setdefault(match[0], " ".join(about.split()))
    text = (
        "# JSON documents\n\n`--json` prints one document on standard output. Its `schema` names "
    )
    text += (
        "its form. Readers may rely on every key; later versions add keys and never rename one.\n\n"
    )
    text += table(("schema", "content"), ((f"`{name}`", found[name]) for name in sorted(found)))
    text += "\n## Keys of deployctl.report/1\n\n"
    rows: list[tuple[object, ...]] = []
    for part, made in (("", "report"), ("hosts[].", "_host"), ("hosts[].steps[].", "_step")):
        rows += [(f"`{part}{key}`",) for key in _keys_of("report/document.py", made)]
    return text + table(("key",), rows)


def _keys_of(file: str, function: str) -> list[str]:
    """The keys of the document that a function builds."""
    for node in ast.walk(ast.parse((PACKAGE / file).read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            dicts = [one for one in ast.walk(node) if isinstance(one, ast.Dict)]
            return [str(key.value) for key in dicts[0].keys if isinstance(key, ast.Constant)]
    raise LookupError(function)


def fixes() -> str:
    rows = [
        (f"`{fix.name}`", fix.title, fix.shows, f"{fix.fixed_in} ({fix.pull_request})")
        for fix in by_name().values()
    ]
    text = "# Known defects of vLLM\n\n`deployctl fixes PATH` checks an installation for each. A "
    text += "profile requires a fix under `fixes.require`.\n\n"
    return text + table(("name", "defect", "shows as", "fixed in"), rows)


def edges() -> set[tuple[str, str]]:
    """Which package imports which, from the source."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                to = name.split(".")
                if len(parts) > 1 and to[0] == "deployctl" and len(to) > 1 and to[1] != parts[0]:
                    found.add((parts[0], to[1]))
    return found


def direct(found: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The imports that no longer path of imports implies."""
    below: dict[str, set[str]] = {}
    for start, end in found:
        below.setdefault(start, set()).add(end)

    def reaches(start: str, end: str) -> bool:
        return end in below.get(start, ()) or any(reaches(n, end) for n in below.get(start, ()))

    return {(a, b) for a, b in found if not any(reaches(n, b) for n in below[a] if n != b)}


def picture() -> str:
    """The packages as SVG: a row for each layer, an arrow for each import."""
    width, high, gap = 150, 34, 62
    place = {
        name: (400 + int((i - (len(row) - 1) / 2) * 220), 20 + y * gap)
        for y, row in enumerate(LAYERS)
        for i, name in enumerate(row)
    }
    lines = []
    for start, end in sorted(direct(edges())):
        if start not in place or end not in place:
            continue
        (x1, y1), (x2, y2) = place[start], place[end]
        bend = _bend((y2 - y1) // gap)
        side = (bend > 0) - (bend < 0)
        half = width // 2 * side
        a, b = (x1 + half, y1 + high // (2 if bend else 1)), (x2 + half, y2 + high // 2 * abs(side))
        control = (
            f"{a[0] + bend},{a[1]} {b[0] + bend},{b[1]}" if bend else f"{a[0]},{b[1]} {b[0]},{a[1]}"
        )
        lines.append(f'<path d="M{a[0]},{a[1]} C{control} {b[0]},{b[1]}" marker-end="url(#tip)"/>')
    boxes = [
        f'<rect x="{x - width // 2}" y="{y}" width="{width}" height="{high}" rx="5"/>'
        f'<text x="{x}" y="{y + 22}">{name}</text>'
        for name, (x, y) in place.items()
    ]
    style = (
        "text{font:15px sans-serif;text-anchor:middle;fill:#222}rect{fill:#e8eef2;stroke:#567}"
        "path{fill:none;stroke:#567;stroke-width:1.2}#tip path{fill:#567;stroke:none}"
        "@media(prefers-color-scheme:dark){text{fill:#eee}rect{fill:#37474f;stroke:#9ab}"
        "path{stroke:#9ab}#tip path{fill:#9ab}}"
    )
    body = "\n".join([*lines, *boxes])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {30 + len(LAYERS) * gap}" '
        'role="img" aria-label="Packages and their imports">\n'
        f"<style>{style}</style>\n"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0,0 L8,4 L0,8 z"/></marker></defs>\n'
        f"{body}\n</svg>\n"
    )


def _bend(rows: int) -> int:
    """How far an arrow over several rows goes around what lies between."""
    return 0 if rows <= 1 else (70 + 26 * rows) * (1 if rows % 2 else -1)


PAGES: Mapping[str, Callable[[], str]] = {
    "profile": profile,
    "host": host,
    "playbooks": playbooks,
    "steps": steps,
    "exit-codes": exit_codes,
    "commands": commands,
    "documents": documents,
    "fixes": fixes,
}


def main(folder: Path) -> None:
    """Write every page."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        (folder / f"{name}.md").write_text(make(), "utf-8")
    (folder / "architecture.svg").write_text(picture(), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
