"""What requests cost: by the store's address, or by its option."""

import pytest

from lakelog.errors import InvalidInputError
from lakelog.store import FREE, S3_PRICES, MemoryStore, Prices, StoreSpec, parse_prices


@pytest.mark.parametrize(
    ("url", "options", "prices"),
    [
        ("s3://bucket/folder", {"region": "eu-central-1"}, S3_PRICES),
        ("s3://bucket", {"endpoint": "https://s3.eu-central-1.amazonaws.com"}, S3_PRICES),
        ("s3://bucket", {"endpoint": "http://127.0.0.1:8333"}, FREE),
        ("s3://bucket", {"aws_endpoint_url": "https://amazonaws.com.example.org"}, FREE),
        ("s3://bucket", {"endpoint": "http://127.0.0.1:8333", "prices": "s3"}, S3_PRICES),
        ("s3://bucket", {"prices": "free"}, FREE),
        ("gs://bucket", {}, S3_PRICES),
        ("az://container", {"azure_storage_endpoint": "http://127.0.0.1:10000"}, FREE),
        ("file:///folder", {}, FREE),
        ("folder", {"prices": "s3"}, S3_PRICES),
        ("memory:", {}, FREE),
    ],
)
def test_clouds_have_the_prices_of_s3_and_all_else_is_free_unless_it_is_told(
    url: str, options: dict[str, str], prices: Prices, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    assert StoreSpec(url, options).prices == prices


def test_prices_are_dollars_for_a_million_and_a_head_costs_what_a_get_does() -> None:
    assert parse_prices("put:5.4, list:2,get:0.43") == {
        "put": 5_400,
        "list": 2_000,
        "get": 430,
        "head": 430,
        "delete": 0,
    }
    assert parse_prices("put:1")["list"] == 0


@pytest.mark.parametrize(
    "said", ["", "gold", "put", "put:", "put:much", "put:-1", "delete:1", "put:nan", "put:1e9"]
)
def test_what_is_no_price_is_refused_with_what_to_write(said: str) -> None:
    with pytest.raises(InvalidInputError, match="put:5,list:5,get:0"):
        StoreSpec("memory:", {"prices": said}).open()


def test_the_store_itself_is_not_told() -> None:
    assert isinstance(StoreSpec("memory:", {"prices": "s3"}).open(), MemoryStore)
