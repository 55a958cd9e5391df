"""What went wrong at a remote store, by what the caller does next.

obstore gives the classes of its errors away in places: a LIST that is refused is a GenericError
like a timeout, and a 409 on a conditional PUT, where *nothing* was stored, is an
AlreadyExistsError like a 412. The status that the server sent is in the text, so it is read from
there and decides first; the class decides where there is no status. If the text ever changes, a
known answer becomes an unknown one, which is safe, and the contract suite fails.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from lakelog.errors import InvalidInputError, LakelogError, NotFoundError, UnavailableError

__all__ = ["Fault"]

_STATUS = re.compile(r"status code: (\d{3})\b")
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

Remedy = tuple[Callable[[str], LakelogError], str]

_BY_STATUS: dict[int, Remedy] = {
    301: (InvalidInputError, _REGION),
    401: (InvalidInputError, _NO_ACCESS),
    403: (InvalidInputError, _NO_ACCESS),
    404: (NotFoundError, _NO_BUCKET),
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

    @classmethod
    def of(cls, error: Exception) -> "Fault":
        found = _STATUS.search(str(error))
        return cls(error=error, status=int(found[1]) if found else None)

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
        # The rest of the text is a dump, and the query of an address may hold a signature.
        text = _QUERY.sub("", str(self.error).partition("\n")[0])
        if "redirect without LOCATION" in text:
            make, next_step = _BY_STATUS[301]
        elif self.status is not None:
            make, next_step = _BY_STATUS.get(self.status, (UnavailableError, _UNKNOWN))
        else:
            make, next_step = _BY_CLASS.get(self.kind, (UnavailableError, _UNKNOWN))
        return make(f"{where}: {text}: {next_step}")
