"""The command line: arguments -> one function call.

commands    the table of subcommands, each a module that is imported only when it is asked for
serve       a broker; demo: one on a temporary folder
topic, group
            topics and consumer groups, from storage; tables: rows for people or for programs
dump        every batch and record of any segment, as kafka-dump-log prints them
inspect     one line per segment: what is inside, and is it whole
doctor      what usually breaks
pipeline    verbs on whole topics, by Spark; view: what they show
init, keep  a namespace is made, and kept
storage     what commands that ask a namespace have in common
arguments   what subcommands that read segments have in common

find        paths -> segments and side files, in order
recognize   which format a file is in
files       bytes by ranges, from files
reading     a segment, from a file to its blocks

text, jsonl and control     what is printed of a segment
side                        what is printed of the files beside it
output, report              how it gets to stdout, and what goes to stderr
"""

from lakelog.cli.commands import main

__all__ = ["main"]
