"""Segments printed: `lakelog dump` and `lakelog inspect`, for every format and for files beside.

command, inspect         the two commands; streams, their arguments, stdout and stderr
find, files              paths -> files -> which format -> bytes by ranges
reading, side, control   a segment, a file beside one, a control record -> what is shown of it
text, jsonl              lines as kafka-dump-log prints them, and as JSON
kafka_dump_log           Apache's tool of that name; sources, where its files are
"""
