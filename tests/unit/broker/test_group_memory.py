"""What one group may take, where that depends on what keeps it."""

from lakelog.broker import Limits
from lakelog.broker.group_memory import GroupMemory
from lakelog.coordination import GROUP_BYTES_MAX


def test_a_group_that_etcd_would_not_take_is_refused_and_goes_on_as_it_was() -> None:
    """Otherwise it would be saved again and again, and all groups of its shard would wait."""
    memory = GroupMemory(0, Limits(), GROUP_BYTES_MAX)
    memory.take("g", 1_000, "")
    assert memory.refuses("g", GROUP_BYTES_MAX, 1_000, "") is None
    refused = memory.refuses("g", GROUP_BYTES_MAX + 1, 1_000, "")
    assert refused is not None
    assert "commit fewer partitions" in str(refused)
    assert GroupMemory(0, Limits()).refuses("g", GROUP_BYTES_MAX + 1, 1_000, "") is None
