"""Groups that are in etcd are in the bucket as well, soon after they have changed."""

import pytest

from lakelog.broker import register_gauges
from lakelog.broker.metrics.prometheus import encode, read_gauges
from lakelog.broker.mirror import MIRROR_S, Mirror
from lakelog.coordination import read_mirror
from lakelog.errors import UnavailableError
from lakelog.names import MIRROR_PREFIX
from lakelog.store import Op
from tests.unit.broker.site import Site, broker, virtual_story
from tests.unit.broker.test_offsets_topic import commit
from tests.virtual_time import pass_time

LATE_S = 4 * MIRROR_S


def is_mirror(op: Op) -> bool:
    return str(getattr(op, "key", "")).startswith(MIRROR_PREFIX)


@virtual_story
async def test_what_has_changed_is_mirrored_and_nothing_else_costs_a_request() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        services = running.services
        mirror = services.coordinator.mirror(0)
        await mirror.look()
        assert set(site.do(read_mirror(0))) == set(services.coordinator.held())
        before = sum(map(is_mirror, site.ops))
        await mirror.look()
        assert sum(map(is_mirror, site.ops)) == before
        await commit(running, "g", "t", 17)
        await mirror.look()
        groups = [name for one in site.do(read_mirror(0)).values() for name in one.shard.groups]
        assert groups == ["g"]
        assert 0 < sum(map(is_mirror, site.ops)) - before <= 3


@virtual_story
async def test_how_old_the_mirror_is_is_told() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        services = running.services
        services.mirror = mirror = services.coordinator.mirror(0)
        await mirror.look()
        register_gauges(services.metrics, services)
        site.fails = is_mirror
        await commit(running, "g", "t", 17)
        await pass_time(LATE_S)
        with pytest.raises(UnavailableError):
            await mirror.look()
        assert isinstance(mirror, Mirror)
        assert mirror.age_ms() >= 1000 * LATE_S
        page, _ = encode(services.metrics, await read_gauges(services.metrics))
        (line,) = [
            one
            for one in page.decode().splitlines()
            if one.startswith("lakelog_mirror_age_seconds ")
        ]
        assert float(line.split()[1]) >= LATE_S
        site.fails = lambda _: False
        await mirror.look()
        assert mirror.age_ms() < 1000 * MIRROR_S
