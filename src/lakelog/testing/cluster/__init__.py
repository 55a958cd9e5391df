"""A cluster in the simulated world: brokers that disagree, and clients that hop.

city        everybody, and what they share; what the store and the network do to them
brokers     a broker: the real flows of members and lanes
groups      its consumer groups: the real flows of shards and claims
clients     producers, consumers and committers, as Java's clients do it
laws        what must hold, whatever happens
simulation  one seed, one run
planted     bugs that it must find
"""

from lakelog.testing.cluster.planted import CLUSTER_BUGS, planted_in_cluster
from lakelog.testing.cluster.simulation import CLUSTER_WAYS, simulate_cluster

__all__ = ["CLUSTER_BUGS", "CLUSTER_WAYS", "planted_in_cluster", "simulate_cluster"]
