"""Certificates: when one expires, and its subject as Kafka writes it.

    Certificate => SEQUENCE
      TBSCertificate => SEQUENCE
        [0] version, if it is not 1
        serial INTEGER, signature SEQUENCE, issuer SEQUENCE
        validity => SEQUENCE of two times: UTCTime, or GeneralizedTime
        ...

Python's own ssl says when the certificate of the other side expires, and not when one's own does.
That time stands near the beginning, so that much of DER is read here and no more.

A subject is written as Java does, by RFC 2253: the last part first, names that the RFC knows by
name, others by number with their value in hexadecimal. ACLs have been written for that text.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from lakelog.errors import InvalidInputError

__all__ = ["expiry_ms", "subject_name"]

_SEQUENCE, _UTC_TIME, _GENERALIZED_TIME, _VERSION = 0x30, 0x17, 0x18, 0xA0
_LONG = 0x80
_SUBJECT_PARTS = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_IA5, _PRINTABLE, _UTF8 = 0x16, 0x13, 0x0C
_NUMBERED = {
    "emailAddress": ("1.2.840.113549.1.9.1", _IA5),
    "serialNumber": ("2.5.4.5", _PRINTABLE),
    "title": ("2.5.4.12", _UTF8),
    "givenName": ("2.5.4.42", _UTF8),
    "surname": ("2.5.4.4", _UTF8),
    "dnQualifier": ("2.5.4.46", _PRINTABLE),
    "businessCategory": ("2.5.4.15", _UTF8),
}
_ESCAPED = ',+"\\<>;'


def expiry_ms(der: bytes) -> int:
    """Return when a certificate expires, in milliseconds since 1970.

    Raises:
        InvalidInputError: this is no certificate.
    """
    try:
        at = _enter(der, _enter(der, 0, _SEQUENCE), _SEQUENCE)
        if der[at] == _VERSION:
            at = _after(der, at)
        for _ in range(3):  # Serial, signature, issuer.
            at = _after(der, at)
        at = _after(der, _enter(der, at, _SEQUENCE))  # Not before.
        start, end = _content(der, at)
        text = der[start:end].decode("ascii")
        if der[at] == _UTC_TIME:
            text = ("20" if int(text[:2]) < 50 else "19") + text
        elif der[at] != _GENERALIZED_TIME:
            raise ValueError(f"a time of type {der[at]}")
        when = datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    except (IndexError, ValueError) as error:
        raise InvalidInputError(
            f"this is no certificate: {error}: look at it with openssl x509 -text"
        ) from error
    return int(when.timestamp() * 1000)


def _content(der: bytes, at: int) -> tuple[int, int]:
    """Return where the content of an element begins and ends."""
    size = der[at + 1]
    at += 2
    if size >= _LONG:
        count = size - _LONG
        if not 1 <= count <= 4:
            raise ValueError("a length of more than four bytes")
        size, at = int.from_bytes(der[at : at + count], "big"), at + count
    if at + size > len(der):
        raise ValueError("it is cut short")
    return at, at + size


def _enter(der: bytes, at: int, kind: int) -> int:
    if der[at] != kind:
        raise ValueError(f"element {der[at]} in the place of {kind}")
    return _content(der, at)[0]


def _after(der: bytes, at: int) -> int:
    return _content(der, at)[1]


def subject_name(subject: Iterable[Sequence[tuple[str, str]]]) -> str:
    """Return a subject, as ``ssl`` gives it, by RFC 2253 as Java writes it."""
    parts = ["+".join(_part(*pair) for pair in part) for part in subject]
    return ",".join(reversed(parts))


def _part(name: str, value: str) -> str:
    known = _SUBJECT_PARTS.get(name)
    if known is not None:
        return f"{known}={_escaped(value)}"
    number, tag = _NUMBERED.get(name, (name, _UTF8))
    body = value.encode()
    size = bytes([len(body)]) if len(body) < _LONG else _long(len(body))
    return f"{number}=#{(bytes([tag]) + size + body).hex()}"


def _long(size: int) -> bytes:
    body = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([_LONG + len(body)]) + body


def _escaped(value: str) -> str:
    text = "".join(f"\\{one}" if one in _ESCAPED else one for one in value)
    if text[:1] in (" ", "#"):
        text = "\\" + text
    if text[-1:] == " " and len(value) > 1:
        text = text[:-1] + "\\ "
    return text
