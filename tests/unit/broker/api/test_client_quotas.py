"""DescribeClientQuotas and AlterClientQuotas: codes, filters, and what is only tried."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from lakelog.catalog import read_quotas
from lakelog.names import QUOTAS_KEY
from lakelog.store import PutIfAbsent
from tests.unit.broker.site import Client, Site, broker, connect, story

NONE, INVALID = ErrorCode.none, ErrorCode.invalid_request
EXACT, DEFAULT, ANY = range(3)


async def alter(
    client: Client, *changes: tuple[dict[str, str | None], dict[str, float | None]], **more: Any
) -> list[tuple[ErrorCode, str | None, dict[str, str | None]]]:
    given = {"version": 1, "validate_only": False, **more}
    found = await client.ask(
        49,
        given.pop("version"),
        entries=[
            {
                "entity": [{"entity_type": kind, "entity_name": one} for kind, one in who.items()],
                "ops": [
                    {"key": key, "value": value or 0.0, "remove": value is None}
                    for key, value in rates.items()
                ],
            }
            for who, rates in changes
        ],
        **given,
    )
    return [
        (
            row.error_code,
            row.error_message,
            {one.entity_type: one.entity_name for one in row.entity},
        )
        for row in found.entries
    ]


async def describe(
    client: Client, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> Any:
    rows = [
        {"entity_type": kind, "match_type": match, "match": name}
        for kind, match, name in components
    ]
    found = await client.ask(48, version, components=rows, strict=strict)
    if found.entries is None:
        return found.error_code
    return [
        (
            {one.entity_type: one.entity_name for one in row.entity},
            {one.key: one.value for one in row.values},
        )
        for row in found.entries
    ]


@story
async def test_what_is_set_is_described_and_what_is_taken_away_is_gone() -> None:
    site = Site()
    async with broker(site) as running:
        client = await connect(running)
        for version in (0, 1):
            both = {"user": "a", "client-id": None}
            rates: dict[str, float | None] = {"producer_byte_rate": 5.0, "store_request_rate": 2.5}
            rows = await alter(client, (both, rates), version=version)
            assert rows == [(NONE, None, both)]
            assert await describe(client, version=version) == [(both, rates)]
            assert await describe(client, ("user", EXACT, "a"), strict=True) == []
            assert await describe(client, ("client-id", DEFAULT, None)) == [(both, rates)]
            await alter(client, (both, {"producer_byte_rate": None, "store_request_rate": None}))
            assert await describe(client, version=version) == []
        await client.close()


@story
async def test_each_entity_has_its_own_answer() -> None:
    site = Site()
    async with broker(site) as running:
        client = await connect(running)
        rows = await alter(
            client,
            ({"user": "a"}, {"request_percentage": 12.5}),
            ({"user": "b"}, {"producer_byte_rate": 0.5}),
            ({"ip": "a.host"}, {"connection_creation_rate": 5.0}),
            ({"ip": "10.0.0.1"}, {"connection_creation_rate": 5.0}),
        )
        assert [code for code, _, _ in rows] == [NONE, INVALID, INVALID, NONE]
        assert "fractional" in str(rows[1][1])
        assert "address" in str(rows[2][1])
        assert await describe(client, ("ip", ANY, None)) == [
            ({"ip": "10.0.0.1"}, {"connection_creation_rate": 5.0})
        ]
        await client.close()


@story
async def test_what_is_only_tried_changes_nothing() -> None:
    site = Site()
    async with broker(site) as running:
        client = await connect(running)
        change = ({"user": "a"}, {"producer_byte_rate": 5.0})
        wrong = ({"user": "b"}, {"nonsense": 5.0})
        rows = await alter(client, change, wrong, validate_only=True)  # type: ignore[arg-type]
        assert [code for code, _, _ in rows] == [NONE, INVALID]
        assert site.do(read_quotas()).quotas.rows == {}
        assert await describe(client) == []
        await client.close()


@pytest.mark.parametrize(
    ("component", "code"),
    [
        (("nonsense", ANY, None), ErrorCode.unsupported_version),
        (("", ANY, None), INVALID),
        (("user", EXACT, None), INVALID),
        (("user", DEFAULT, "a"), INVALID),
        (("user", ANY, "a"), INVALID),
        (("user", 3, None), INVALID),
    ],
)
def test_what_is_no_filter_is_refused(component: Any, code: ErrorCode) -> None:
    @story
    async def told() -> None:
        async with broker(Site()) as running:
            client = await connect(running)
            assert await describe(client, component) is code
            await client.close()

    told()


@story
async def test_quotas_that_a_later_version_wrote_are_left_as_they_are() -> None:
    site = Site()
    site.perform(PutIfAbsent(QUOTAS_KEY, b'{"format": 2, "version": 1, "quotas": []}'))
    async with broker(site) as running:
        client = await connect(running)
        ((code, message, _),) = await alter(client, ({"user": "a"}, {"producer_byte_rate": 5.0}))
        assert code not in (NONE, INVALID)
        assert "format 2" in str(message)
        await client.close()
