"""The ACLs that a broker goes by: read when it starts, looked at again, changed by its clients.

A broker that was told to have an authorizer and cannot read the ACLs does not start. One that has
read them and cannot look again goes by those that it has, and says so: nothing becomes allowed by
an outage, and nobody is locked out by one.

A look is one HEAD every few seconds; the ACLs are read when it shows another object. A change that
a client makes here counts here before it is answered, and other brokers are hinted at it. One look
or change goes on at a time, so that none can bring back what another has replaced.

All ACLs are one cell: each change reads, alters, writes and indexes all of them. Many of them take
a third of a second for that, which a thread has beside the loop.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from lakelog.broker.settings import AuthorizerSettings
from lakelog.catalog import AclCell, add_acls, decode_acls, remove_acls
from lakelog.errors import LakelogError, NotFoundError
from lakelog.names import ACLS_KEY
from lakelog.ports import Clock, Ids
from lakelog.security import Acl, AclFilter, AclRules
from lakelog.store import (
    PerformAsync,
    Work,
    head,
    read_cell,
    run_async,
    run_beside,
    working_async,
)

__all__ = ["LOOK_S", "Authorizer"]

LOOK_S = 5.0
"""How often ACLs that were changed through other brokers are looked for."""

STALE_MS = 30_000
"""From when on it is told that they could not be."""

LARGE_BYTES, MANY = 64 << 10, 500
"""A cell over this size, or with so many ACLs, is read and changed beside the loop."""

T = TypeVar("T")


class Authorizer:
    """The ACLs of a namespace, as one broker knows them."""

    def __init__(
        self,
        settings: AuthorizerSettings,
        perform: PerformAsync,
        *,
        clock: Clock,
        ids: Ids,
        on_error: Callable[[LakelogError], None] = lambda _: None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings, self._perform = settings, working_async(perform)
        self._clock, self._ids = clock, ids
        self._on_error, self._on_change = on_error, on_change
        self._in_turn = asyncio.Lock()
        self._seen: str | None = None
        """The etag of the cell that was read last; None: another one is there by now."""
        self._looked_ms = clock.boot_ms()
        self.rules = self._rules(AclCell())
        """Another object with each change: whoever keeps a verdict keeps by which it was made."""

    def _rules(self, cell: AclCell) -> AclRules:
        return AclRules(
            cell.acls,
            version=cell.version,
            super_users=self._settings.principals(),
            allow_everyone=self._settings.allow_everyone,
        )

    @property
    def age_ms(self) -> int:
        """For how long nothing has been heard of the ACLs."""
        return self._clock.boot_ms() - self._looked_ms

    def trouble(self) -> str:
        """Say for how long they could not be looked at; nothing if all is well."""
        if self.age_ms <= STALE_MS:
            return ""
        return (
            f"the ACLs could not be looked at for {self.age_ms // 1000} s, and those from before"
            " count: check the store, and run lakelog pipeline verify URL --layout lakelog"
        )

    async def load(self) -> None:
        """Know the ACLs as they are now.

        Raises:
            LakelogError: there was no answer, or they cannot be read.
        """
        async with self._in_turn:
            began_ms = self._clock.boot_ms()
            etag = await self._etag()
            if etag != self._seen:
                self._seen, self.rules = await self._read()
            self._looked_ms = began_ms

    async def _read(self) -> tuple[str, AclRules]:
        found = await self._run(read_cell(ACLS_KEY))
        if found is None:
            return "", self._rules(AclCell())

        def decoded() -> AclRules:
            return self._rules(decode_acls(found.body))

        is_large = len(found.body) > LARGE_BYTES
        return found.info.etag, await asyncio.to_thread(decoded) if is_large else decoded()

    async def watch(self) -> None:
        """Look again. Called every ``LOOK_S``."""
        try:
            await self.load()
        except LakelogError as error:
            self._on_error(error)

    async def add(self, acls: Sequence[Acl]) -> None:
        """Add ACLs that have been checked.

        Raises:
            LakelogError: there would be too many, or there was no answer.
        """
        async with self._in_turn:
            is_large = len(self.rules.acls) + len(acls) > MANY
            cell = await self._change(add_acls(acls, self._ids()), is_large)
            await self._take(cell, is_large)

    async def remove(self, filters: Sequence[AclFilter]) -> list[tuple[Acl, ...]]:
        """Remove ACLs, and return what each filter found.

        Raises:
            LakelogError: there was no answer.
        """
        async with self._in_turn:
            is_large = len(self.rules.acls) > MANY
            cell, found = await self._change(remove_acls(filters, self._ids()), is_large)
            await self._take(cell, is_large)
        return found

    async def _change(self, flow: Work[T], is_large: bool) -> T:
        work: Any = self._perform
        return await (run_beside if is_large else run_async)(flow, work)

    async def _take(self, cell: AclCell, is_large: bool) -> None:
        def changed() -> AclRules | None:
            if cell.version == self.rules.version and cell.acls == self.rules.acls:
                return None
            return self._rules(cell)

        rules = await asyncio.to_thread(changed) if is_large else changed()
        if rules is not None:
            self._seen, self.rules = None, rules
            self._on_change()

    async def _etag(self) -> str:
        try:
            return (await self._run(head(ACLS_KEY))).etag
        except NotFoundError:
            return ""

    async def _run(self, flow: Work[T]) -> T:
        perform: Any = self._perform
        return await run_async(flow, perform)
