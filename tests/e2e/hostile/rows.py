"""All attacks: what each is, and how many store requests it may cause in a second."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.e2e.hostile import on_connections, on_control, on_data, on_groups
from tests.e2e.hostile.target import Target

__all__ = ["ROWS", "Row"]


@dataclass(frozen=True, slots=True)
class Row:
    """One attack."""

    name: str
    """What it does, a sentence without its full stop."""
    attack: Callable[[Target, float], None]
    """Attacks until a moment."""
    store_requests: int = 0
    """So many more requests a second than without it may go to the store, however fast it asks."""


LOOKS = 100
"""A look at a lane is one request, and begins when the last one has ended: whoever asks meanwhile
shares the next. What needs a look costs no more than these, however many ask."""

SHARD_LOOKS = 600
"""Offsets that are not there cost a look at the shard of their group: of 67 requests a second, each
at all eight shards."""

ROWS: tuple[Row, ...] = (
    # Connections.
    Row("it opens connections and says nothing", on_connections.silent_connections),
    Row("it connects and hangs up, again and again", on_connections.connects),
    Row("it sends nearly all of large requests", on_connections.half_requests),
    Row("it sends 60 kB of a request on each of many connections", on_connections.begun_frames),
    Row("it sends the heads of requests byte by byte", on_connections.trickled_heads),
    Row("it sends TLS, HTTP, SASL and noise", on_connections.garbage),
    Row("it asks for versions that are not", on_connections.wrong_versions),
    Row("it reads none of many answers", on_connections.never_read),
    Row("it gives itself names of 32 kB", on_connections.long_client_ids),
    Row("it takes all connections for health", on_connections.silent_http),
    Row("it asks for metrics all the time", on_connections.http_flood),
    # Records.
    Row("it asks by time for records that grow a thousandfold", on_data.bombs_by_time, LOOKS),
    Row("it produces batches that grow a thousandfold", on_data.codec_bombs, 50),
    Row("it produces batches with wrong checksums", on_data.wrong_checksums),
    Row("it produces as much as is taken", on_data.flood, 100),
    Row("it names 300,000 topics in a request", on_data.topics_without_partitions),
    Row("it lets padded fetches wait", on_data.waiting_fetches, 20),
    Row("it fetches 20 MB and does not read", on_data.unread_fetches, 100),
    Row("it waits for more bytes than there will be", on_data.patient_fetches, LOOKS),
    Row("it opens fetch sessions and forgets them", on_data.fetch_sessions, 20),
    Row("it fetches one partition a thousand times at once", on_data.one_bad_offset, LOOKS),
    Row("it asks for ids that nobody has", on_data.unknown_ids, 20),
    Row("it asks for the producers of a partition", on_data.described_producers, LOOKS),
    Row("it asks where a topic was at many times", on_data.times, LOOKS),
    # Topics, configs, producers.
    Row("it asks for all topics", on_control.all_metadata),
    Row("it asks for names that are new", on_control.new_names, 500),
    Row("it makes topics and deletes them", on_control.churned_topics, 200),
    Row("it makes topics with reserved names", on_control.reserved_names, 20),
    Row("it makes a topic of 100,000 partitions", on_control.assigned_topics, 20),
    Row("it appends to a config 10,000 times", on_control.appended_configs, 50),
    Row("it names configs by 30 kB", on_control.long_config_names, 50),
    Row("it becomes another producer each time", on_control.producer_ids, 20),
    # Groups.
    Row("it commits for groups that nobody is in", on_groups.commits, 100),
    Row("it joins a group again and again", on_groups.joins, 100),
    Row("it joins with expressions that take long", on_groups.patterns, 50),
    Row("it asks for all groups", on_groups.all_groups, SHARD_LOOKS),
)
