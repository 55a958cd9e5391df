"""What requests cost: a setting of the store.

    prices=s3                     S3 Standard in us-east-1 (2025), and about what GCS and Azure take
    prices=free                   nothing
    prices=put:5.4,list:5.4,get:0.43
                                  dollars for a million; what is not named is free

Without the setting a bucket of a cloud has the prices of S3. A folder, memory, and ``s3://`` at an
endpoint that is not Amazon's cost nothing. A head costs what a get does, and deleting is free, as
on S3. Storage and traffic are not in it; within a region traffic to S3 is free.
"""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from urllib.parse import urlsplit

from lakelog.errors import InvalidInputError
from lakelog.store.remote import SCHEMES

__all__ = ["FREE", "PRICES", "S3_PRICES", "Prices", "parse_prices", "prices_of"]

Prices = Mapping[str, int]
"""Billionths of a dollar for one request, by kind: list, head, get, put, delete."""

PRICES = "prices"
"""The option that says what requests cost."""

S3_PRICES: Prices = {"list": 5_000, "head": 400, "get": 400, "put": 5_000, "delete": 0}
FREE: Prices = dict.fromkeys(S3_PRICES, 0)

_NAMED = {"s3": S3_PRICES, "free": FREE}
_KINDS = ("put", "list", "get")
NANO_USD_MAX = 10**9
"""For one request: a dollar. Whoever says more has written the price of a million of them."""


def prices_of(url: str, options: Mapping[str, str]) -> Prices:
    """Return what requests to a store cost, by its address and options.

    Raises:
        InvalidInputError: the option is wrong.
    """
    said = options.get(PRICES)
    if said is not None:
        return parse_prices(said)
    scheme, _, rest = url.partition(":")
    if scheme not in SCHEMES or not rest.startswith("//"):
        return FREE
    ends = [value for name, value in options.items() if _names_endpoint(name.lower())]
    hosts = [urlsplit(end).hostname or "" for end in ends]
    return S3_PRICES if all(host.endswith(".amazonaws.com") for host in hosts) else FREE


def _names_endpoint(option: str) -> bool:
    return "endpoint" in option or "base_url" in option


def parse_prices(text: str) -> Prices:
    """Return the prices that an option names.

    Raises:
        InvalidInputError: it names none.
    """
    if text in _NAMED:
        return _NAMED[text]
    found = dict.fromkeys(_KINDS, 0)
    for part in text[:256].split(","):
        kind, colon, usd = part.strip().partition(":")
        nano_usd = _nano_usd(usd)
        if kind not in _KINDS or not colon or nano_usd is None:
            raise InvalidInputError(
                f"{PRICES}={text[:64]}: use s3, free, or dollars for a million requests, as in "
                f"{PRICES}=put:5,list:5,get:0.4"
            )
        found[kind] = nano_usd
    return {**FREE, **found, "head": found["get"]}


def _nano_usd(usd_a_million: str) -> int | None:
    """Return the price of one request; None: this is no price."""
    try:
        price = Decimal(usd_a_million) * 1000
    except InvalidOperation:
        return None
    return round(price) if price.is_finite() and 0 <= price <= NANO_USD_MAX else None
