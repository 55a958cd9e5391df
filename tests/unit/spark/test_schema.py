"""The schema that a query sees, and which schemas it may ask for."""

import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from lakelog.errors import InvalidInputError
from lakelog.spark import BatchesReader, RecordsReader, SegmentsReader, reader_of, schema_of

WHERE = {"path": "/data", "layout": "kafka"}
KAFKA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)


def test_records_have_the_columns_of_spark_s_kafka_source() -> None:
    assert schema_of(WHERE) == KAFKA
    headers = "headers array<struct<key:string,value:binary>>"
    assert schema_of({**WHERE, "includeHeaders": "true"}) == f"{KAFKA}, {headers}"


def test_what_is_corrupt_stands_last() -> None:
    permissive = {**WHERE, "mode": "PERMISSIVE"}
    assert schema_of(permissive) == f"{KAFKA}, _corrupt string"
    assert schema_of({**permissive, "columns": "key"}) == "key binary, _corrupt string"
    assert schema_of({**permissive, "columns": "_corrupt,key"}) == "_corrupt string, key binary"
    with pytest.raises(InvalidInputError, match="mode=PERMISSIVE adds it"):
        schema_of({**WHERE, "columns": "_corrupt"})


def test_tables_have_columns_of_their_own() -> None:
    segments = schema_of({**WHERE, "table": "segments"})
    assert segments.startswith("topic string, partition int, base_offset bigint, next_offset")
    assert schema_of({**WHERE, "table": "batches", "columns": "codec,control"}) == (
        "codec string, control boolean"
    )


def test_a_new_table_has_the_columns_of_records() -> None:
    assert schema_of({"owner": "me", "provider": "lakelog"}) == KAFKA


def test_a_schema_must_be_a_part_of_ours() -> None:
    offset, key = StructType().add("offset", LongType()), StructType().add("key", BinaryType())
    assert isinstance(reader_of(offset, WHERE), RecordsReader)
    assert isinstance(
        reader_of(StructType().add("bytes", LongType()), {**WHERE, "table": "segments"}),
        SegmentsReader,
    )
    assert isinstance(
        reader_of(StructType().add("codec", StringType()), {**WHERE, "table": "batches"}),
        BatchesReader,
    )
    with pytest.raises(InvalidInputError, match="column offset is bigint, not int"):
        reader_of(StructType().add("offset", IntegerType()), WHERE)
    with pytest.raises(InvalidInputError, match="no column 'key'"):
        reader_of(key, {**WHERE, "table": "batches"})


def test_the_column_for_damage_belongs_to_one_mode() -> None:
    schema = StructType().add("_corrupt", StringType())
    with pytest.raises(InvalidInputError, match="mode=PERMISSIVE adds it"):
        reader_of(schema, WHERE)
    assert isinstance(reader_of(schema, {**WHERE, "mode": "PERMISSIVE"}), RecordsReader)
