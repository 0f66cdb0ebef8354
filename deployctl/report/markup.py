"""Elements of a chart, built as a tree: text is escaped where it is written, never by hand."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree

from deployctl.report import printable

Node = ElementTree.Element
Child = Node | str | None


def element(tag: str, /, *children: Child | Iterable[Child], **attributes: object) -> Node:
    """An element with children; `class_` stands for class, `_` in names for `-`.

    Children may be nested lists; None is left out, as is an attribute that is None.
    """
    node = ElementTree.Element(tag)
    for name, value in attributes.items():
        if value is not None:
            node.set(name.rstrip("_").replace("_", "-"), _text(value))
    for child in _flat(children):
        _append(node, child)
    return node


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return printable.block(str(value))


def _flat(children: Iterable[Child | Iterable[Child]]) -> Iterable[Node | str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, str | ElementTree.Element):
            yield child
        else:
            yield from _flat(child)


def _append(node: Node, child: Node | str) -> None:
    if not isinstance(child, str):
        node.append(child)
        return
    child = printable.block(child)
    if len(node):
        node[-1].tail = (node[-1].tail or "") + child
    else:
        node.text = (node.text or "") + child
