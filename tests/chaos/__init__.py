"""The campaign: brokers on hosts of their own, real clients, faults of every kind, and a ledger.

    python -m tests.chaos                     go on where the ledger ends
    python -m tests.chaos --summary           what all runs have shown so far

stage      where a run takes place: a store, hosts, a way to the store and a clock for each broker
faults     what befalls whom, by kinds and sets of kinds
workloads  what clients do meanwhile
beside     who else works on the log: keepers, the pipeline on Spark, the last release
audit      whether all objects in the bucket agree in the end
plan       what happens in a run, and which one is next
campaign   one run from its beginning to its end
ledger     what the runs have shown, a line each
planted    lakelog with one bug, which the campaign must find

Clients, diaries and the judge are those of ``tests/cluster``.
"""
