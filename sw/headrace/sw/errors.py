"""Errors that the user is meant to read."""

__all__ = ["HeadraceError"]


class HeadraceError(Exception):
    """Base of every error that a user can cause or mend.

    The message is one text that says what is wrong, where, what was expected, and what to do. The
    command line prints it without a traceback and exits with :attr:`exit_code`.

    Attributes
    ----------
    exit_code : int
        Exit code of the command line: 2, bad input.
    """

    exit_code = 2
