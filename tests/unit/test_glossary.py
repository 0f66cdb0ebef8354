"""The glossary: sentences use the field's words, not these idioms, wherever somebody reads them."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
IDIOMS = {
    r"mend(s|ed|ing)?": "fix, fixed",
    r"told|aloud|said": "reported, shown, printed",
    r"anew": "again, restarted",
    r"way back": "rollback",
    r"(took|takes?|taken) up": "recovered, resumed, attached to",
    r"without a word|so that nobody": "silently",
    r"nobody": "no process, no user",
    r"serves on(?= release|[:.,;]|$)": "is still serving",
    r"turned over": "rotated",
    r"so many": "the number",
    r"as (it|that) was wanted( then)?": "with its original configuration",
    r"what the reasons? names?": "the cause shown above",
    r"(holds )?no whole|not whole|whole any ?more": "incomplete",
    r"means? nothing( here)?": "unsupported, meaningless",
    r"(?<!here )(?-i:is no(ne)?)(?! (longer|more|worse|better|less)\b)": "invalid, is not a",
    r"gates? (was|were|is|are) (not )?asked|no gate was": "gates ran, did not run",
    r"hides (?=file|another|it)": "shadows",
    r"the house|rooms": "architecture, packages",
    r"the very": "the, the same",
    r"made (of|from)": "built from",
    r"mistakes?": "errors",
    r"say of each": "check",
}
FOUND = re.compile("|".join(rf"(?<![\w-])(?:{one})(?![\w-])" for one in IDIOMS), re.IGNORECASE)
SOURCES = [*sorted((REPOSITORY / "deployctl").rglob("*.py")), REPOSITORY / "scripts/reference.py"]
PAGES = [
    *sorted(page for page in DOCS.rglob("*.md") if page.parent != DOCS / "reference"),
    *sorted((REPOSITORY / "playbooks").glob("*.yaml")),
    *sorted((REPOSITORY / "profiles").rglob("*.yaml")),
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
]


def idioms(text: str) -> list[str]:
    """The idioms in a text, whose lines may be broken anywhere; code in it (`x`) is not prose."""
    prose = re.sub(r"`[^`]*`", "`", " ".join(text.split()))
    return [found[0] for found in FOUND.finditer(prose)]


def is_program(text: str) -> bool:
    """Whether a string is Python that is run elsewhere."""
    return text.startswith(("import ", "from ")) and "\n" in text


def sentences(source: str) -> Iterator[tuple[int, str]]:
    """What people read of a module: strings, docstrings and comments, each with its line.

    A pattern that is searched in others' text is none of our sentences: it is the argument of
    `re`, or has a backslash. So is a program that is sent elsewhere.
    """
    patterns: set[int] = set()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re."):
            patterns.update(id(one) for one in ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            other = id(node) in patterns or "\\" in node.value or is_program(node.value)
            if not other and " " in node.value:
                yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_an_idiom_is_found_where_a_sentence_has_it() -> None:
    text = (
        '"""What is\\n    mended."""\nprint(f"the {x} was told", "9 is no int")  # started anew\n'
    )
    found = {word for _, sentence in sentences(text) for word in idioms(sentence)}
    assert sorted(found) == ["anew", "is no", "mended", "told"]
    assert not idioms("there is no file; it is no longer kept; recommended; folder untold")


@pytest.mark.parametrize("path", [str(one.relative_to(REPOSITORY)) for one in SOURCES])
def test_a_module_uses_the_words_of_the_field(path: str) -> None:
    source = (REPOSITORY / path).read_text("utf-8")
    found = {
        f"{path}:{line}: {word}: {' '.join(text.split())[:90]}"
        for line, text in sentences(source)
        for word in idioms(text)
    }
    assert not found, "\n".join(sorted(found))


@pytest.mark.parametrize("path", [str(one.relative_to(REPOSITORY)) for one in PAGES])
def test_a_page_uses_the_words_of_the_field(path: str) -> None:
    lines = (REPOSITORY / path).read_text("utf-8").splitlines()
    found = [f"{path}:{n}: {word}" for n, line in enumerate(lines, 1) for word in idioms(line)]
    assert not found, "\n".join(found)
