"""Server-sent events, as the HTML standard defines their stream, read from pieces of bytes."""

from __future__ import annotations

import codecs
import json
import re

_LINE_END = re.compile(r"\r\n|\n|\r")


class EventStream:
    """Takes pieces as they come and gives the data of whole events, in order.

    Lines end in LF, CR or both, a comment or another field than `data` is passed over, and data
    of several lines is one event. An event also ends where its data is whole and the next begins:
    some servers leave out the empty line between.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._rest: list[str] = []
        self._data: list[str] = []
        self._after_return = False

    def feed(self, piece: bytes) -> list[str]:
        """The data of the events that a piece completes."""
        text = self._decoder.decode(piece)
        # A CR ends its line at once; the LF of a pair may come with the next piece.
        if self._after_return and text:
            text = text.removeprefix("\n")
            self._after_return = False
        self._after_return = self._after_return or text.endswith("\r")
        *lines, rest = _LINE_END.split(text)
        if lines:
            lines[0] = "".join([*self._rest, lines[0]])
            self._rest = []
        # Joined once a line ends: a long line in small pieces would else be copied each time.
        self._rest.append(rest)
        return [event for line in lines for event in self._line(line)]

    def end(self) -> list[str]:
        """The data of an event that the stream's end cut short of its empty line."""
        return [*self._line("".join(self._rest)), *self._line("")]

    def _line(self, line: str) -> list[str]:
        name, _, value = line.partition(":")
        if line and name != "data":
            return []
        ended = []
        if self._data and (not line or (len(self._data) == 1 and _whole(self._data[0]))):
            ended, self._data = ["\n".join(self._data)], []
        if line:
            self._data.append(value.removeprefix(" "))
        return ended


def _whole(data: str) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return data.strip() == "[DONE]"
    return True
