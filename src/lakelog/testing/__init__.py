"""A simulator for the log: the real flows, in a world where everything goes wrong.

world       virtual time, a store that misbehaves, processes that pause and die
truth       what was really stored, and every rule about it
actors      producers, brokers, readers, keepers and an admin
simulation  one seed, one run
planted     bugs that it must find
disk        a disk for the store of files, that forgets what was not synced when its power is cut
"""

from lakelog.testing.planted import BUGS, planted
from lakelog.testing.simulation import Report, simulate
from lakelog.testing.town import make_batch
from lakelog.testing.truth import Anomaly
from lakelog.testing.world import Faults

__all__ = ["BUGS", "Anomaly", "Faults", "Report", "make_batch", "planted", "simulate"]
