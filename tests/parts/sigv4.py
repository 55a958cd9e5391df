"""AWS Signature Version 4 for one request, with the standard library alone.

The parts sign for themselves so that a test of lakelog's own signing has a second opinion.
"""

import hashlib
import hmac
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

_REGION = "us-east-1"
_SIGNED = "host;x-amz-content-sha256;x-amz-date"


def signed_headers(
    method: str, url: str, body: bytes, access_key: str, secret_key: str
) -> dict[str, str]:
    """The headers that make this request a signed one. The path must be quoted already."""
    parts = urlsplit(url)
    time = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    headers = {"host": parts.netloc, "x-amz-content-sha256": digest, "x-amz-date": time}
    lines = [f"{name}:{value}" for name, value in headers.items()]
    request = [method, parts.path or "/", _canonical(parts.query), *lines, "", _SIGNED, digest]
    scope = f"{time[:8]}/{_REGION}/s3/aws4_request"
    hashed = hashlib.sha256("\n".join(request).encode()).hexdigest()
    key = f"AWS4{secret_key}".encode()
    for step in scope.split("/"):
        key = _hmac(key, step)
    signature = _hmac(key, f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashed}").hex()
    credential = f"Credential={access_key}/{scope}"
    authorization = f"{credential}, SignedHeaders={_SIGNED}, Signature={signature}"
    return {**headers, "authorization": f"AWS4-HMAC-SHA256 {authorization}"}


def _canonical(query: str) -> str:
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    return "&".join(sorted(f"{quote(k, '%-_.~')}={quote(v, '%-_.~')}" for k, _, v in pairs))


def _hmac(key: bytes, message: str) -> bytes:
    return hmac.new(key, message.encode(), hashlib.sha256).digest()
