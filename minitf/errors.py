"""The base class of errors that a user can fix."""

from typing import ClassVar


class UserError(ValueError):
    """Invalid input; the message is one sentence that names it and says what to do.

    Command lines print `error: …` and exit with `exit_status`, without a traceback.
    """

    exit_status: ClassVar[int] = 2
