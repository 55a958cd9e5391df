"""The users as this broker knows them: in memory, so that no login asks the store.

They are read when the broker starts, every few seconds, and when another broker says that something
has changed. So a flood of logins costs the store nothing, and a new user is known to all brokers
after a beat, or after ten seconds if somebody wrote it to the bucket without a broker.
"""

from collections.abc import Callable

from lakelog.catalog import UserChange, change_users, read_users
from lakelog.errors import LakelogError
from lakelog.ports import Ids
from lakelog.security import Users
from lakelog.store import PerformAsync, run_async, working_async

__all__ = ["USERS_S", "UserDirectory"]

USERS_S = 10.0
"""How often they are looked at."""


class UserDirectory:
    """All users."""

    def __init__(
        self,
        perform: PerformAsync,
        ids: Ids,
        *,
        on_change: Callable[[], None],
        on_error: Callable[[LakelogError], None],
    ) -> None:
        self._perform, self._ids = working_async(perform), ids
        self._on_change, self._on_error = on_change, on_error
        self.current = Users()

    async def load(self) -> None:
        """Read them.

        Raises:
            LakelogError: they cannot be read.
        """
        self.current = await run_async(read_users(), self._perform)

    async def look(self) -> None:
        """Read them; those that were known stay if that fails."""
        try:
            await self.load()
        except LakelogError as error:
            self._on_error(error)

    async def change(self, changes: tuple[UserChange, ...]) -> None:
        """Change some, all at once, and let other brokers know.

        Raises:
            LakelogError: that was refused, or the store does not answer.
        """
        secret = self._ids() + self._ids()
        flow = change_users(changes, write=self._ids(), secret=secret)
        self.current = await run_async(flow, self._perform)
        self._on_change()
