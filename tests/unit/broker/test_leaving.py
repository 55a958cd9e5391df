"""A broker that stops gives up what it has when others are ready to take it."""

from tests.patience import until
from tests.unit.broker.site import Site, broker, story

BEAT_MS, LANES = 200, 4


@story
async def test_groups_are_released_when_others_lead_what_it_led() -> None:
    site = Site(lanes=LANES)
    led: list[dict[int, int]] = []
    async with (
        broker(site, node_id=2, heartbeat_ms=BEAT_MS) as second,
        broker(site, node_id=1, heartbeat_ms=BEAT_MS) as first,
    ):
        leading, others = (one.services.cluster.node.leadership.epochs for one in (first, second))
        await until(lambda: len(leading) + len(others) == LANES and leading)
        release = first.services.coordinator.release

        async def release_and_tell() -> None:
            led.append(dict(first.services.cluster.node.leadership.epochs))
            await release()

        first.services.coordinator.release = release_and_tell  # type: ignore[method-assign]
    assert led == [{}], "nobody knew yet that it leaves"
