"""Every decoder against atheris: bytes that nobody thought of.

    python -m tests.fuzz --seconds 60        every target, within a minute
    python -m tests.fuzz columns --seconds 600
    python -m tests.fuzz columns FILE        one input again, with its traceback

targets    the table of targets, and what each module of them promises
batches    record batches and the codecs inside them
columns    the compiled codec against the plain one
formats    walking and opening whole segments
lanes      bundles and checkpoints
side       headers, footers, indexes and checkpoints, each by itself
wire       Kafka's protocol: frames and requests
reseal     makes checksums right again, so that damage gets past them
seeds      writes the corpus that every run starts from: ``python -m tests.fuzz.seeds``
worker     one target in its own process, under atheris

What a run finds new is thrown away with its directory, except an input that breaks something: that
one is kept in the corpus of its target, where ``tests/property/test_fuzz_corpus.py`` will read it
for ever.
"""
