"""Segments printed: `lakelog dump` and `lakelog inspect`, for every format and for files beside.

command, inspect         the two commands
find, recognize, files   paths -> files -> which format -> bytes by ranges
reading, side, control   a segment, a file beside one, a control record -> what is shown of it
kafka_dump_log           Apache's tool of that name; kafka_indexes, sources: what it looks at
text, jsonl, summary     lines as kafka-dump-log prints them, as JSON, as one line a segment
"""
