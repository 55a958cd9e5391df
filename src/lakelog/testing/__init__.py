"""A simulator for the log: the real flows, in a world where everything goes wrong.

world       virtual time, chance, and a store that misbehaves
process     processes that pause and die, and what becomes of what they ask for
disk        a disk for the store of files, that forgets what was not synced when its power is cut;
            nodes: its files; sectors: how they are torn
machine     towns on such a disk
truth       what was really stored, and every rule about it; keyed: of compacted topics; power: what
            a power cut may have taken; damaged: what may be read where fsync has lied
town        what everybody shares; brokers, actors, bulk, rewriting: who lives there
scale       limits of the product, made as small as the town
simulation  one seed, one run
planted     bugs that it must find; repaired: those that were in the product once
spooling    a spool on a disk that forgets; spool_bugs: what must be found there
renew       finds the seeds that find them
"""

from lakelog.testing.planted import BUGS, planted
from lakelog.testing.simulation import Report, simulate
from lakelog.testing.town import make_batch
from lakelog.testing.truth import Anomaly
from lakelog.testing.world import Faults

__all__ = ["BUGS", "Anomaly", "Faults", "Report", "make_batch", "planted", "simulate"]
