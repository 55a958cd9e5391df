"""The page about record batches shows the bytes that the encoder writes."""

import re
from pathlib import Path

from lakelog.model import Header, Record
from lakelog.records import NewBatch, encode_batch

PAGE = Path(__file__).parents[3] / "docs/reference/formats/record-batch.md"
BATCH = NewBatch(
    records=(
        Record(offset=42, timestamp=1_700_000_000_000, key=b"k", value=b"hello"),
        Record(
            offset=43,
            timestamp=1_700_000_000_005,
            key=None,
            value=None,
            headers=(Header("trace", b"on"),),
        ),
    ),
    leader_epoch=3,
)


def test_the_example_is_what_the_encoder_writes() -> None:
    (example,) = re.findall(
        r"<!-- bytes of the batch -->\n```text\n(.*?)```", PAGE.read_text(), re.S
    )
    shown = b""
    for line in example.splitlines():
        at, _, rest = line.partition("  ")
        assert int(at, 16) == len(shown)
        shown += bytes.fromhex(rest.split("   ")[0])
    assert shown == encode_batch(BATCH)
