"""deployctl that stops (SIGSTOP) whenever it has said certain words, until it hears SIGCONT: what
a test does then, it does there, however slow the machine is.

    python -m tests.hosts.served.stopping WORDS ARGUMENT…
"""

from __future__ import annotations

import signal
import sys
import threading

from deployctl.cli.app import main
from deployctl.engine.run.events import Event
from deployctl.report import terminal

WORDS = sys.argv.pop(1)


class Stopping(terminal.Plain):
    """The lines of a run, with a stop after those with the words."""

    def hear(self, event: Event) -> None:
        super().hear(event)
        if WORDS in terminal.describe(event):
            # To this thread: it goes no step further, whichever other one the kernel would choose.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


if __name__ == "__main__":
    terminal.Plain = Stopping  # type: ignore[misc]
    main()
