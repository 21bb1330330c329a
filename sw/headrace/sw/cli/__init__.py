"""The command line. Exit codes: 0 done, 1 a check found a difference, 2 bad input."""

import sys

from headrace.hw.config import ConfigError

from ..errors import HeadraceError


__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors that the user can mend are one message, without a traceback."""
    from .app import app
    try:
        # The command that a report repeats.
        app(arguments, prog_name="headrace",
            obj=list(sys.argv[1:] if arguments is None else arguments))
    except (HeadraceError, ConfigError) as error:
        sys.stdout.flush()
        print(f"headrace: {error}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", HeadraceError.exit_code))
    except KeyboardInterrupt:
        print("headrace: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output left, as `headrace ... | head` does: nothing is wrong.
        sys.stderr.close()
        sys.exit(0)
