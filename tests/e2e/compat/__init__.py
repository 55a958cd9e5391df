"""What seven unmodified Kafka clients can do: on Apache Kafka, and on lakelog.

    behaviours/   what is tried, one function each, in one table: said once, for all clients
    workers.py    the seven clients, each behind a worker that does one thing when it is told to
    python/ java/ go/ node/   the workers
    stage.py      what a behaviour has at hand: its own topics and groups, the client, checks
    running.py    all behaviours of a client, each with its own time limit
    known.py      what fails, and why
    results.json  what came out, last time
    page.py       the same as docs/compatibility.md

A worker reads one question as a line of JSON, and writes one line of JSON for its answer. Questions
are answered side by side, in any order:

    {"id": 7, "op": "create_topic", "topic": "a", "partitions": 3, "configs": {}}
    {"id": 7, "ok": null}
    {"id": 7, "error": "TOPIC_ALREADY_EXISTS", "words": "Topic 'a' already exists."}
    {"id": 7, "absent": "the client has no such call"}

A worker knows its client and no behaviour; `operations.py` says what it may be asked. So what
passes for one client is what passes for every other.

    python -m tests.e2e.compat                              both clusters, and the page
    python -m tests.e2e.compat --on lakelog --clients java --only seek   only shows what comes out
"""
