"""A broker that leaves nothing behind: for tests, in their own process or beside them.

broker     the broker as a test holds it: its address, topics, records, groups, and troubles
thread     the loop that it runs on, in a thread; started, stopped, and started again
folder     where it keeps everything: gone when its owner is, however that ended
disk       the disk below it, which syncs nothing and may be full
troubles   what a test wants to go wrong, and the store to which it does
answers    answers to producers that come late, or never
reading    what is in the log, as plain records
"""

from lakelog.ephemeral.broker import EphemeralBroker, EphemeralGroup
from lakelog.ephemeral.folder import EphemeralFolder
from lakelog.ephemeral.reading import StoredRecord
from lakelog.ephemeral.troubles import Troubles

__all__ = [
    "EphemeralBroker",
    "EphemeralFolder",
    "EphemeralGroup",
    "StoredRecord",
    "Troubles",
]
