"""The command line: arguments -> one function call.

commands    the table of subcommands, each a module that is imported only when it is asked for
serve       a broker; demo: one on a temporary folder; running: from a store to the end of a process
workers     several brokers on one machine: their supervisor; worker: one of them, worker_link:
            what the two say to each other
topic, group
            topics and consumer groups, from storage; tables: rows for people or for programs
dump        segments printed: every batch and record, or one line per segment
doctor      what usually breaks
pipeline    verbs on whole topics, by Spark; view: what they show
spool       a log on this machine's disk
iam         what a process needs of a bucket
init, keep  a namespace is made, and maintained
maintenance the same by Spark
warm        kernels are compiled ahead
storage     what commands that use a namespace have in common
arguments   options that several commands have, and how errors end them
logs        structured logs on stderr; probes: health and metrics of a pipeline over HTTP
"""

from lakelog.cli.commands import main

__all__ = ["main"]
