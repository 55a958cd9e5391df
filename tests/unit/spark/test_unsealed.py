"""A plan over the segments of a namespace tells of what is only in its journal."""

import logging
from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StringType, StructType

from lakelog.pipeline import run_here
from lakelog.spark import reader_of
from tests.unit.pipeline.home import Home

SCHEMAS = {
    "records": StructType().add("offset", LongType()),
    "batches": StructType().add("codec", StringType()),
}


@pytest.mark.parametrize("table", SCHEMAS)
def test_a_plan_by_segments_warns_of_records_that_are_not_sealed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, table: str
) -> None:
    home = Home(tmp_path)
    topic = home.topic(partitions=1)
    home.fill(topic, 4)
    run_here(home.seal())
    options = {"path": home.url, "layout": "kafs", "table": table, "subscribe": "orders"}
    with caplog.at_level(logging.WARNING):
        assert len(reader_of(SCHEMAS[table], options).partitions()) == 1
        assert caplog.messages == [], "all of it is sealed"
        home.fill(topic, 2)
        assert len(reader_of(SCHEMAS[table], options).partitions()) == 1
    (told,) = caplog.messages
    assert "6 records are only in the journal, and left out here" in told
    assert "orders-0 from offset 12 on" in told
    assert told.endswith("leave the option layout out to read them, too")
