"""`holdfast`, and `python -m holdfast`: an interrupt ends it in one line from its first moment."""

import os
import signal

INTERRUPTED = 130


def main() -> None:
    """The console entry point."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    from .cli import main as run  # which takes a fifth of a second

    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    finally:
        from .cli.worker.exit import end_soon

        end_soon()


def _end(number: int, frame: object) -> None:
    """Nothing is open yet, and whatever is being imported would say in a traceback that it was interrupted."""
    os.write(2, b"holdfast: interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
