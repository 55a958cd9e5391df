"""A plan holds every segment that has something to read, also those on pages."""

from lakelog.catalog import Topic
from lakelog.log import Planned, plan_partitions
from lakelog.maintenance import SealSettings
from lakelog.manifests import ROWS_MAX, turn_page
from lakelog.store import Delete, Meter, Op, Work, metered
from tests.unit.log.site import Site

SMALL = SealSettings(group_bytes=1 << 20, segment_bytes=1)


def plan(topic: Topic) -> Work[list[Planned]]:
    return plan_partitions([topic.path_of(partition) for partition in range(topic.partitions)])


def test_every_partition_is_planned_also_one_without_history() -> None:
    site = Site()
    topic = site.topic(partitions=70)
    site.fill(site.lane(), topic.path_of(3), 5)
    site.seal(SMALL)
    planned = site.run(plan(topic))
    assert [one.where.partition for one in planned] == list(range(70))
    assert [len(one.rows) for one in planned if one.rows] == [5]
    assert (planned[3].sealed_end, planned[3].log_start) == (10, 0)


def test_what_lies_before_the_start_is_not_planned() -> None:
    site = Site()
    topic = site.topic()
    site.fill(site.lane(), topic.path_of(0), 5)
    site.seal(SMALL)
    site.delete_records(topic.path_of(0), 5)
    (planned,) = site.run(plan(topic))
    assert [row.base_offset for row in planned.rows] == [4, 6, 8]


def test_rows_on_pages_are_planned_and_a_page_that_is_gone_means_look_again() -> None:
    site = Site(every=64)
    topic = site.topic()
    where = topic.path_of(0)
    site.fill(site.lane(), where, ROWS_MAX + 1, count=1)
    site.seal(SMALL)
    assert site.run(turn_page(where, site.id(), site.now_ms))
    (before,) = site.run(plan(topic))
    assert [row.base_offset for row in before.rows] == list(range(ROWS_MAX + 1))
    (page,) = site.manifest(where).pages
    body = site.objects()[f"{where.prefix}{page.name}.json"]
    site.perform(Delete(f"{where.prefix}{page.name}.json"))
    asked: list[Op] = []

    def late(op: Op) -> object:
        asked.append(op)
        if len(asked) == 3:  # The manifest, the page, and the manifest again.
            site.replace(f"{where.prefix}{page.name}.json", body)
        return site.perform(op)

    (after,) = site.run(plan(topic), late)
    assert after.rows == before.rows


def test_a_plan_costs_a_request_a_partition() -> None:
    site = Site()
    topic = site.topic(partitions=130)
    meter = Meter()
    site.run(plan(topic), metered(site.perform, meter))
    assert meter.usage.requests == {"get": 130}
