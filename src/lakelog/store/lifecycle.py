"""Whether the bucket deletes objects by itself: its expiry rules, and those that reach a prefix.

A rule of the bucket that deletes what is old would delete a log from under its readers, and nothing
in the store's answers shows it until it happens. obstore has no call for such rules, so one signed
GET is made here, with the standard library:

    GET /bucket?lifecycle     200    rules
                              404    NoSuchLifecycleConfiguration: there are none
                              other  not known

It is a look and no guard. Credentials that may not read the rules are common and no reason to
refuse a store, so whatever stands in the way is an answer (``rules`` is None) and never an error.

What speaks HTTP and XML is imported when it is needed. Few processes ask, and all import stores.
"""

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, quote, urlsplit

from lakelog.errors import CorruptError
from lakelog.store.environment import plain_name
from lakelog.store.opening import StoreSpec

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

__all__ = ["Expiry", "ExpiryRule", "find_expiry", "parse_rules", "sign"]

ANSWER_BYTES_MAX = 1 << 20
"""A thousand rules, the most that S3 keeps, take less."""

ID_CHARS_MAX = 255
TIMEOUT_S = 5.0
_NONE = b"NoSuchLifecycleConfiguration"
_EMPTY = hashlib.sha256(b"").hexdigest()
_YES = ("true", "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryRule:
    """A rule by which a bucket deletes objects."""

    id: str
    prefix: str
    """Of the keys it is about, seen from the root of the bucket."""

    @property
    def what(self) -> str:
        """What it deletes, in words."""
        return f"what begins with {self.prefix!r}" if self.prefix else "everything"

    def reaches(self, prefix: str) -> bool:
        """Say whether it may delete something below ``prefix``."""
        return prefix.startswith(self.prefix) or self.prefix.startswith(prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """What could be learned of the rules that reach a prefix."""

    rules: tuple[ExpiryRule, ...] | None
    """None if that is not known."""
    said: str
    """What was found, or why nothing was."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def find_expiry(
    spec: StoreSpec,
    prefix: str,
    *,
    now_ms: Callable[[], int] = _now_ms,
    timeout_s: float = TIMEOUT_S,
) -> Expiry:
    """Look for rules that delete objects below ``prefix`` of the store at ``spec``.

    Raises:
        InvalidInputError: the address or an option is wrong.
    """
    spec.open()  # Which sends nothing, and refuses what we should not send either.
    parts = urlsplit(spec.url)
    if parts.scheme in ("gs", "az"):
        return Expiry(
            rules=None,
            said=f"not checked: lakelog cannot ask {parts.scheme}:// for its lifecycle rules",
        )
    if parts.scheme != "s3":
        return Expiry(rules=(), said="no rules: nothing here deletes by itself")
    # By their shortest names; obstore takes several for one.
    options = {plain_name(name): value for name, value in spec.options.items()}
    if not ("access_key_id" in options and "secret_access_key" in options):
        # Those of a profile or of an instance are known to obstore alone, which does not tell them.
        return Expiry(rules=None, said="not checked: no access_key_id in options or variables")
    try:
        status, body = _ask(parts.netloc, options, now_ms(), timeout_s)
        if status == 404 and _NONE in body:
            return Expiry(rules=(), said="no rules")
        if status != 200:
            return Expiry(rules=None, said=f"the store answers {status} to ?lifecycle")
        rules = parse_rules(body)
    except (OSError, CorruptError) as error:
        return Expiry(rules=None, said=str(error))
    except ValueError:  # Its text would show the header or address, and a secret in it.
        return Expiry(rules=None, said="an option of the store cannot be sent")
    folder = parts.path.strip("/")
    below = (folder + "/" if folder else "") + prefix
    reaching = tuple(rule for rule in rules if rule.reaches(below))
    return Expiry(rules=reaching, said=_told(len(rules), reaching))


def _told(count: int, reaching: tuple[ExpiryRule, ...]) -> str:
    if not reaching:
        return f"{count} that delete, none here" if count else "no rules that delete"
    return "; ".join(f"rule {one.id!r} deletes {one.what}" for one in reaching[:3])


# ---------------------------------------------------------------------------- asking


def _bucket_address(bucket: str, options: Mapping[str, str], region: str) -> SplitResult:
    """Return the address of the bucket, as obstore would put it together."""
    endpoint = options.get("endpoint")
    hosted = options.get("virtual_hosted_style_request", "").lower() in _YES
    if hosted:
        # An endpoint that is given with this option names the bucket already.
        return urlsplit((endpoint or f"https://{bucket}.s3.{region}.amazonaws.com").rstrip("/"))
    above = (endpoint or f"https://s3.{region}.amazonaws.com").rstrip("/")
    return urlsplit(f"{above}/{quote(bucket)}")


def _ask(
    bucket: str, options: Mapping[str, str], now_ms: int, timeout_s: float
) -> tuple[int, bytes]:
    region = options.get("region") or "us-east-1"
    address = _bucket_address(bucket, options, region)
    path = address.path or "/"
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ValueError(address.scheme)
    headers = {"host": address.netloc.rpartition("@")[2], "x-amz-content-sha256": _EMPTY}
    headers["x-amz-date"] = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    token = options.get("session_token")
    if token:
        headers["x-amz-security-token"] = token
    keys = options["access_key_id"], options["secret_access_key"]
    headers["authorization"] = sign(path, "lifecycle=", headers, region, *keys)
    return _fetch(address, f"{path}?lifecycle", headers, timeout_s)


def _fetch(
    address: SplitResult, target: str, headers: Mapping[str, str], timeout_s: float
) -> tuple[int, bytes]:
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    assert address.hostname is not None
    make = HTTPConnection if address.scheme == "http" else HTTPSConnection
    with closing(make(address.hostname, address.port, timeout=timeout_s)) as link:
        try:
            link.request("GET", target, headers=headers)
            answer = link.getresponse()
            return answer.status, answer.read(ANSWER_BYTES_MAX + 1)
        except HTTPException as error:
            raise OSError(str(error) or type(error).__name__) from error


def sign(
    path: str, query: str, headers: Mapping[str, str], region: str, access_key: str, secret: str
) -> str:
    """Return the authorization of a GET by AWS Signature Version 4.

    ``headers`` are all signed; their names are in lower case, and x-amz-date is among them. Path
    and query are quoted already, and the query is in order.
    """
    names = sorted(headers)
    signed = ";".join(names)
    lines = [f"{name}:{headers[name]}" for name in names]
    request = "\n".join(["GET", path, query, *lines, "", signed, headers["x-amz-content-sha256"]])
    stamp = headers["x-amz-date"]
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for step in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"):
        key = hmac.digest(key, step.encode(), "sha256")
    return (
        f"AWS4-HMAC-SHA256 Credential={access_key}/{scope}, "
        f"SignedHeaders={signed}, Signature={key.hex()}"
    )


# ---------------------------------------------------------------------------- reading the answer


def parse_rules(body: bytes) -> tuple[ExpiryRule, ...]:
    """Return the enabled rules of a lifecycle configuration that delete current objects.

    A rule for objects with a tag is left out: ours have none. A condition that is not known here
    does not limit a rule.

    Raises:
        CorruptError: this is no such configuration, or one that nobody should parse.
    """
    import xml.etree.ElementTree as ET

    if len(body) > ANSWER_BYTES_MAX:
        raise _odd(f"longer than {ANSWER_BYTES_MAX} bytes")
    try:
        # Text and not bytes: an encoding that the document declares could hide what is looked for.
        text = body.decode()
    except UnicodeDecodeError as error:
        raise _odd("not UTF-8") from error
    if "<!" in text.replace("<!--", ""):
        raise _odd("it declares a document type or entities")
    try:
        root = ET.fromstring(text)  # noqa: S314 (short, and without declarations)
    except ET.ParseError as error:
        raise _odd(str(error)) from error
    if root.tag.rpartition("}")[2] != "LifecycleConfiguration":
        raise _odd("another document")
    return tuple(_rule(rule) for rule in root.iterfind("{*}Rule") if _deletes(rule))


def _odd(what: str) -> CorruptError:
    return CorruptError(
        f"{what}: check that the endpoint is an object store", at=0, where="?lifecycle"
    )


def _deletes(rule: "Element") -> bool:
    if rule.findtext("{*}Status", "").strip() != "Enabled":
        return False
    if rule.find("{*}Filter//{*}Tag") is not None:
        return False
    # ExpiredObjectDeleteMarker removes markers; Days and Date remove objects.
    return any(rule.find(f"{{*}}Expiration/{{*}}{field}") is not None for field in ("Days", "Date"))


def _rule(rule: "Element") -> ExpiryRule:
    prefixes = [found.text or "" for found in rule.iterfind("{*}Filter//{*}Prefix")]
    # Rules from before there were filters have their prefix directly.
    prefixes += [found.text or "" for found in rule.iterfind("{*}Prefix")]
    name = rule.findtext("{*}ID", "").strip()[:ID_CHARS_MAX]
    return ExpiryRule(id=name, prefix=prefixes[0] if prefixes else "")
