"""What went wrong at a remote store, by what the caller does next.

    TooLargeError       413, or a code that says so            nothing was stored: split it
    InvalidInputError   another 4xx, or 501: it is refused     nothing was stored: fix the call
    NotFoundError       404
    UnavailableError    all else: no answer, 408, 409, 429, 5xx, and the codes of a 400 or 403 that
                        say "again" (half a body came, a token has just expired)

A refusal tells of the one request that it answers. Whoever has sent the same object before, and got
no answer, knows as little of *that* request as before.

obstore gives the classes of its errors away in places: a LIST that is refused is a GenericError
like a timeout, and a 409 on a conditional PUT, where *nothing* was stored, is an
AlreadyExistsError like a 412. The status and the body that the server sent are in the text, so they
are read from there and decide first; the class decides where there is no status. If the text ever
changes, a known answer becomes an unknown one, which is safe, and the contract suite fails.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from lakelog.errors import (
    InvalidInputError,
    LakelogError,
    NotFoundError,
    TooLargeError,
    UnavailableError,
)

__all__ = ["Fault"]

_STATUS = re.compile(r"status code: (\d{3})\b")
_CODE = re.compile(r"<Code>\s*(\w+)\s*</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")
_BODY = re.compile(r": [\ufeff\s]*<.*")
_QUERY = re.compile(r"(?<=\S)\?\S*")
_TAKEN = (304, 412)
"""How stores say that If-None-Match: * failed; R2 used the first."""

_NO_ACCESS = (
    "access denied: check credentials: access_key_id and secret_access_key (s3), account_key (az), "
    "service_account (gs), and what they may do in this bucket"
)
_NO_BUCKET = "nothing there: check the bucket, the endpoint and the key"
_REGION = "check the option region: the bucket is in another one"
_UNKNOWN = "no answer, outcome unknown: check the endpoint and the network, then retry"
_BAD_CALL = "check the address and the options of the store"
_REFUSED = (
    "the store refuses the request, and nothing was stored: check the endpoint, what stands "
    "between here and it, and whether it knows conditional writes (`lakelog doctor store`)"
)
_TOO_LARGE = (
    "the store refuses an object of this size, and nothing was stored: split it, or raise the "
    "limit of the store or of the proxy before it"
)
_EXPIRED = (
    "the credentials have expired, outcome unknown: they are asked for again where they come from "
    "the cloud; a session token that was given as an option must be given anew"
)
_CLOCK = (
    "the clock of this machine is too far from the clock of the store, outcome unknown: set it "
    "(NTP), then retry"
)

Remedy = tuple[Callable[[str], LakelogError], str]

_AGAIN: Remedy = (UnavailableError, _UNKNOWN)

# The code decides before the status, which is 400 or 403 for most of these.
_LARGE_CODES = ("EntityTooLarge", "MaxMessageLengthExceeded", "RequestBodyTooLarge")
_BROKEN_CODES = (
    "BadDigest", "IncompleteBody", "Md5Mismatch", "RequestTimeout",
    "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch",
)  # fmt: skip
"""The body came late, in part or damaged: the next one may come whole."""
_BUSY_CODES = (
    "BandwidthLimitExceeded", "InternalError", "OperationAborted", "RateLimitExceeded",
    "RequestLimitExceeded", "RequestThrottled", "ServiceUnavailable", "SlowDown",
    "Throttling", "ThrottlingException", "TooManyRequests", "UserRateLimitExceeded",
)  # fmt: skip
_BY_CODE: dict[str, Remedy] = {
    **dict.fromkeys(_LARGE_CODES, (TooLargeError, _TOO_LARGE)),
    **dict.fromkeys((*_BROKEN_CODES, *_BUSY_CODES), _AGAIN),
    **dict.fromkeys(("ExpiredToken", "TokenRefreshRequired"), (UnavailableError, _EXPIRED)),
    **dict.fromkeys(("RequestExpired", "RequestTimeTooSkewed"), (UnavailableError, _CLOCK)),
}
_BY_STATUS: dict[int, Remedy] = {
    # A status that says nothing else says that the request was refused.
    **dict.fromkeys((*range(400, 500), 501, 505), (InvalidInputError, _REFUSED)),
    301: (InvalidInputError, _REGION),
    401: (InvalidInputError, _NO_ACCESS),
    403: (InvalidInputError, _NO_ACCESS),
    404: (NotFoundError, _NO_BUCKET),
    413: (TooLargeError, _TOO_LARGE),
    # Time-outs, conflicts, locks, "too early", "too many", and a proxy that saw us leave. 412 and
    # 416 are answers to conditions and ranges: where one is not expected, nothing is known.
    **dict.fromkeys((408, 409, 412, 416, 421, 423, 425, 429, 499), _AGAIN),
}
_BY_CLASS: dict[str, Remedy] = {
    "FileNotFoundError": (NotFoundError, _NO_BUCKET),
    "InvalidPathError": (InvalidInputError, "choose another key"),
    "NotSupportedError": (InvalidInputError, "this store cannot do it: use another one"),
    "PermissionDeniedError": (InvalidInputError, _NO_ACCESS),
    "UnauthenticatedError": (InvalidInputError, _NO_ACCESS),
    "UnknownConfigurationKeyError": (InvalidInputError, _BAD_CALL),
    "ValueError": (InvalidInputError, _BAD_CALL),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An error of obstore, as an answer."""

    error: Exception
    status: int | None
    """What the server sent, if it did."""
    code: str = ""
    """The store's own word for it, out of the body that it sent: EntityTooLarge, SlowDown."""

    @classmethod
    def of(cls, error: Exception) -> "Fault":
        status, code = _STATUS.search(str(error)), _CODE.search(str(error))
        if status is None:
            return cls(error=error, status=None)
        return cls(error=error, status=int(status[1]), code=code[1] if code else "")

    @property
    def kind(self) -> str:
        return type(self.error).__name__

    @property
    def past_the_end(self) -> bool:
        """Whether the object is shorter than the start of the range."""
        return self.status == 416

    @property
    def taken(self) -> bool:
        """Whether the server has said that the key of a put-if-absent exists."""
        # Azure says 409 to this, and only there a 409 tells that the object exists.
        told = self.status in _TAKEN or "BlobAlreadyExists" in str(self.error)
        return self.kind == "AlreadyExistsError" and told

    @property
    def changed(self) -> bool:
        """Whether the server has said that the object of a put-if-match is another, or gone."""
        return self.kind == "PreconditionError" and self.status in (404, 412)

    def explained(self, where: str) -> LakelogError:
        """Return our error for it."""
        make, next_step = self._remedy()
        return make(f"{where}: {self._told()}: {next_step}")

    def _remedy(self) -> Remedy:
        if "redirect without LOCATION" in str(self.error):
            return _BY_STATUS[301]
        if self.status is None:
            return _BY_CLASS.get(self.kind, _AGAIN)
        if self.status == 400 and "performing HEAD" in str(self.error):
            return _AGAIN  # It has no body, so no code: the token may just have expired.
        return _BY_CODE.get(self.code) or _BY_STATUS.get(self.status, _AGAIN)

    def _told(self) -> str:
        """Return what the server said, in a line."""
        # The rest of the text is a dump, and the query of an address may hold a signature.
        text = _BODY.sub("", _QUERY.sub("", str(self.error).partition("\n")[0])).rstrip(": ")
        message = _MESSAGE.search(str(self.error)) if self.code else None
        said = ": ".join(
            part for part in (self.code, message[1].strip() if message else "") if part
        )
        return f"{text} ({said})" if said else text
