"""What the variables of the environment say about a store: read here, and nowhere else.

    option               variables, the first that is set
    endpoint             AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_ENDPOINT
    region               AWS_REGION, AWS_DEFAULT_REGION
    access_key_id        AWS_ACCESS_KEY_ID      \\
    secret_access_key    AWS_SECRET_ACCESS_KEY   | together, or not at all
    session_token        AWS_SESSION_TOKEN      /
    allow_http           AWS_ALLOW_HTTP

They become options where a store is named, so that they reach the workers of a cluster with it. An
option that is given counts more, and where obstore would take the variable nevertheless, that is
refused. All other variables that obstore knows (AWS_*, GOOGLE_*, AZURE_*)
it reads itself, wherever a store is opened: they name files and identities of a machine.

Plain HTTP is allowed where the endpoint says http://, since nobody writes that by accident, and
refused where ``allow_http`` says false besides.
"""

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from lakelog.errors import InvalidInputError

__all__ = ["complete_options", "plain_name"]

_S3: dict[str, tuple[str, ...]] = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "access_key_id": ("AWS_ACCESS_KEY_ID",),
    "secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
    "session_token": ("AWS_SESSION_TOKEN",),
    "allow_http": ("AWS_ALLOW_HTTP",),
}
_IDENTITY = ("access_key_id", "secret_access_key", "session_token")
_ALIASES = {
    "endpoint_url": "endpoint", "endpoint_url_s3": "endpoint",
    "default_region": "region", "token": "session_token",
}  # fmt: skip
_ENDPOINTS = {
    "s3": (),  # It is an option by now.
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_YES = ("true", "1")


def plain_name(name: str) -> str:
    """Return the shortest name of an option of S3; obstore takes several for one."""
    short = name.lower().removeprefix("aws_")
    return _ALIASES.get(short, short)


def complete_options(
    url: str,
    options: Mapping[str, str],
    variables: Mapping[str, str] = os.environ,  # noqa: TID251 (the one place)
) -> dict[str, str]:
    """Return the options of a remote store, with what the variables say besides.

    Raises:
        InvalidInputError: the endpoint is plain HTTP, and that is not allowed; or a variable would
            count more than an option.
    """
    scheme, complete = urlsplit(url).scheme, dict(options)
    if scheme == "s3":
        given = {plain_name(name): value for name, value in options.items()}
        _check_overruled(given, variables)
        complete |= _from_variables(set(given), variables)
    if "allow_http" not in complete:
        ends = [variables.get(name, "") for name in _ENDPOINTS.get(scheme, ())]
        if _plain_endpoint(complete, ends):
            complete["allow_http"] = "true"
    elif complete["allow_http"].lower() not in _YES and (end := _plain_endpoint(complete, [])):
        raise InvalidInputError(
            f"the endpoint {end} is plain HTTP, and allow_http is {complete['allow_http']}: use an "
            "https:// endpoint, or leave allow_http out"
        )
    return complete


def _check_overruled(given: Mapping[str, str], variables: Mapping[str, str]) -> None:
    """Refuse a variable that obstore prefers to an option, or takes as a part of it."""
    endpoint = variables.get("AWS_ENDPOINT_URL_S3")
    if endpoint and given.get("endpoint", endpoint).rstrip("/") != endpoint.rstrip("/"):
        raise InvalidInputError(
            f"the endpoint is {given['endpoint']}, and AWS_ENDPOINT_URL_S3 says {endpoint}: unset "
            "the variable, or leave the option out"
        )
    has_half = "access_key_id" in given and "session_token" not in given
    if has_half and variables.get("AWS_SESSION_TOKEN"):
        raise InvalidInputError(
            "access_key_id is given without a session_token, and AWS_SESSION_TOKEN is that of "
            "another key: unset the variable, or leave the option out"
        )


def _from_variables(given: set[str], variables: Mapping[str, str]) -> dict[str, str]:
    found = {
        option: next((variables[name] for name in names if variables.get(name)), "")
        for option, names in _S3.items()
        if option not in given
    }
    if given & {*_IDENTITY, "skip_signature"}:
        # Half of an identity from here and half from there is none.
        found = {option: value for option, value in found.items() if option not in _IDENTITY}
    return {option: value for option, value in found.items() if value}


def _plain_endpoint(options: Mapping[str, str], others: list[str]) -> str:
    """Return the first endpoint that is plain HTTP, if there is one."""
    named = [value for name, value in options.items() if "endpoint" in name or "base_url" in name]
    return next((one for one in (*named, *others) if one.lower().startswith("http:")), "")
