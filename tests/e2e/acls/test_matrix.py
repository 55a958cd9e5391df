"""Under the same ACLs every API answers as a real Kafka does: a sample; `make acls` runs it all."""

import pytest

from lakelog.wire import APIS, ApiKey
from tests.e2e.acls.__main__ import ask_kafka, ask_lakelog
from tests.e2e.acls.columns import COLUMNS
from tests.e2e.acls.page import FAILED, PAGE, differences, page, read_results
from tests.e2e.acls.probes import PROBES

pytestmark = pytest.mark.kafka

SAMPLE = [COLUMNS[0], COLUMNS[1], COLUMNS[6], COLUMNS[10], *COLUMNS[27::4]]


def test_both_answer_the_same_under_the_same_acls() -> None:
    kafka, ours = ask_kafka(SAMPLE), ask_lakelog(SAMPLE)
    assert differences(kafka, ours) == []
    known = read_results()
    assert differences({column: known[column] for column in kafka}, ours) == []
    for answers in (kafka["nothing"], ours["nothing"]):
        assert sum(FAILED in one for one in answers.values()) > 50


def test_every_api_is_in_the_matrix() -> None:
    assert {probe.key for probe in PROBES} == set(APIS) - {ApiKey.BROKER_HEARTBEAT}


def test_the_page_says_what_kafka_answered() -> None:
    assert PAGE.read_text() == page(), "python -m tests.e2e.acls"
    known = read_results()
    assert list(known) == [str(column) for column in COLUMNS]
    assert all(list(row) == [str(probe) for probe in PROBES] for row in known.values())
