"""`holdfast`, and `python -m holdfast`: an interrupt ends it in one line from its first moment."""

import gc
import os
import signal
import sys

from .distribution import require
from .errors import MissingExtra

INTERRUPTED = 130


def main() -> None:
    """The console entry point."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    _need_extra()
    gc.disable()  # modules stay: to look for garbage among them, again and again, takes a tenth of a short command
    from .cli import main as run  # which takes a fifth of a second

    gc.freeze()
    gc.enable()
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    finally:
        from .cli.worker.exit import end_soon

        end_soon()
        gc.freeze()  # the interpreter looks through everything once more before it ends


def _need_extra() -> None:
    """End with a line that says what to install, where a package that the command needs is missing."""
    try:
        require("the command", "click", "rich", extra="cli")
    except MissingExtra as error:
        sys.exit(f"holdfast: {error}")


def _end(number: int, frame: object) -> None:
    """Nothing is open yet, and whatever is being imported would say in a traceback that it was interrupted."""
    os.write(2, b"holdfast: interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    import holdfast_queue

    holdfast_queue.main()
