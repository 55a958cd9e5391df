"""Quotas of a namespace: one cell, which every broker reads now and then.

    {"format": 1, "version": 7, "quotas": [
      {"user": "alice", "client-id": null, "values": {"producer_byte_rate": 1048576.0}}]}

A kind that is null stands for the default, and one that is not there for none. Without the cell
there are no quotas. To set what is set already changes nothing; so whoever has lost an answer finds
his change, or makes it again.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from lakelog.formats import Bytes, check_fields, decode_fields, decoding, number
from lakelog.names import QUOTAS_KEY
from lakelog.security import ENTITIES_MAX, Alteration, Entity, Quotas, alter_quotas, entity_of
from lakelog.store import Work, change_cell, read_cell

__all__ = ["FoundQuotas", "change_quotas", "decode_quotas", "encode_quotas", "read_quotas"]

FORMAT = 1
_KINDS = ("user", "client-id", "ip")


class FoundQuotas(NamedTuple):
    """Quotas, and by what it is seen that they are still the same."""

    quotas: Quotas
    etag: str


def read_quotas(known: FoundQuotas | None = None) -> Work[FoundQuotas]:
    """Return the quotas of a namespace; if they are those that are known, the same object.

    Raises:
        CorruptError: the cell is no cell of quotas.
        UnsupportedError: a later version made it.
    """
    found = yield from read_cell(QUOTAS_KEY)
    etag = "" if found is None else found.info.etag
    if known is not None and known.etag == etag:
        return known
    return FoundQuotas(Quotas() if found is None else decode_quotas(found.body), etag)


def change_quotas(alterations: Sequence[Alteration]) -> Work[tuple[Quotas, dict[Entity, str]]]:
    """Alter quotas; return them as they are then, and what is wrong with each entity's alteration.

    Raises:
        ConflictError: others were first, too often.
        CorruptError, UnsupportedError: the cell cannot be read; it was left as it is.
        UnavailableError: no answer, time and again; they may be altered.
    """

    def altered(body: bytes | None) -> bytes | None:
        before = _decoded(body)
        after, _ = alter_quotas(before, alterations)
        return None if after == before else encode_quotas(after)

    def is_mine(body: bytes) -> bool:
        return altered(body) is None

    body = yield from change_cell(QUOTAS_KEY, altered, is_mine)
    quotas = _decoded(body)
    return quotas, alter_quotas(quotas, alterations)[1]


def _decoded(body: bytes | None) -> Quotas:
    return Quotas() if body is None else decode_quotas(body)


def encode_quotas(quotas: Quotas) -> bytes:
    """Return the cell of quotas."""
    rows = [{**dict(entity), "values": dict(values)} for entity, values in quotas.rows.items()]
    fields = {"format": FORMAT, "version": quotas.version, "quotas": rows}
    return json.dumps(fields).encode()


def decode_quotas(data: Bytes) -> Quotas:
    """Return the quotas in a cell.

    Raises:
        CorruptError: it is none.
        UnsupportedError: a later version made it.
    """
    with decoding("cell of quotas", QUOTAS_KEY):
        known = ("version", "quotas")
        fields = decode_fields(data, format_=FORMAT, where=QUOTAS_KEY, known=known)
        if len(fields["quotas"]) > ENTITIES_MAX:
            raise ValueError(f"{len(fields['quotas'])} entities")
        return Quotas(dict(map(_decode_row, fields["quotas"])), number(fields["version"]))


def _decode_row(row: dict[str, Any]) -> tuple[Entity, dict[str, float]]:
    check_fields(row, (*_KINDS, "values"), where=QUOTAS_KEY)
    parts = [(kind, row[kind]) for kind in _KINDS if kind in row]
    if not parts or any(not isinstance(name, str | None) or name == "" for _, name in parts):
        raise ValueError(f"entity {parts}")
    values = {str(key): _rate(value) for key, value in row["values"].items()}
    return entity_of(parts), values


def _rate(value: Any) -> float:
    # A whole number may be larger than any rate; NaN is not above 0.
    if type(value) not in (int, float) or not 0 < value <= sys.float_info.max:
        raise ValueError(f"rate {value!r}")
    return float(value)
