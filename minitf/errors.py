"""The one kind of error that is a user's to mend."""

from typing import ClassVar


class UserError(ValueError):
    """Something the user gave cannot be used; the message is one clear sentence that says what to do.

    The command lines print it as `error: …` and exit with `exit_status`, without a traceback.
    """

    exit_status: ClassVar[int] = 2
