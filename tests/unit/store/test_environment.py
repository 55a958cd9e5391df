"""The variables that every tool for S3 knows, and what becomes of them beside options."""

import pickle

import pytest

from lakelog.errors import InvalidInputError
from lakelog.store import StoreSpec, open_store
from lakelog.store.environment import complete_options

HTTP = "http://127.0.0.1:9000"
MINIO = {
    "AWS_ENDPOINT_URL": HTTP,
    "AWS_REGION": "eu-1",
    "AWS_ACCESS_KEY_ID": "me",
    "AWS_SECRET_ACCESS_KEY": "hidden",
}


def settled(options: dict[str, str] | None = None, /, **variables: str) -> dict[str, str]:
    return complete_options("s3://bucket/ns", options or {}, variables)


def test_the_usual_variables_are_all_that_a_store_on_plain_http_needs() -> None:
    assert settled(**MINIO) == {
        "endpoint": HTTP,
        "region": "eu-1",
        "access_key_id": "me",
        "secret_access_key": "hidden",
        "allow_http": "true",
    }


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
def test_an_endpoint_has_three_names_and_the_narrowest_counts(name: str) -> None:
    assert settled(**{name: HTTP}) == {"endpoint": HTTP, "allow_http": "true"}
    other = {"AWS_ENDPOINT_URL_S3": "https://s3.here", "AWS_ENDPOINT_URL": HTTP}
    assert settled(**other) == {"endpoint": "https://s3.here"}


def test_what_is_given_counts_more_and_identities_are_not_mixed() -> None:
    given = {"region": "us-1", "access_key_id": "you", "secret_access_key": "other"}
    assert settled(given, **MINIO) == {**given, "endpoint": HTTP, "allow_http": "true"}
    assert settled({"AWS_REGION": "us-1"}, AWS_REGION="eu-1") == {"AWS_REGION": "us-1"}
    assert settled(AWS_DEFAULT_REGION="eu-1", AWS_REGION="") == {"region": "eu-1"}


def test_a_variable_that_would_overrule_an_option_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="unset the variable"):
        settled({"endpoint": HTTP}, AWS_ENDPOINT_URL_S3="https://s3.here")
    assert settled({"endpoint": HTTP}, AWS_ENDPOINT_URL_S3=HTTP + "/")["endpoint"] == HTTP
    with pytest.raises(InvalidInputError, match="AWS_SESSION_TOKEN is that of another key"):
        settled({"access_key_id": "a", "secret_access_key": "b"}, AWS_SESSION_TOKEN="c")


@pytest.mark.parametrize("no", ["false", "0", "no"])
def test_plain_http_is_meant_where_it_is_written_unless_it_is_forbidden(no: str) -> None:
    assert settled({"endpoint": HTTP})["allow_http"] == "true"
    assert settled({"aws_endpoint_url": HTTP})["allow_http"] == "true"
    assert "allow_http" not in settled({"endpoint": "https://127.0.0.1:1"})
    for options, variables in (
        ({"endpoint": HTTP, "allow_http": no}, {}),
        ({}, {"AWS_ENDPOINT": HTTP, "AWS_ALLOW_HTTP": no}),
    ):
        with pytest.raises(InvalidInputError, match="plain HTTP"):
            settled(options, **variables)
    for url, name in (("gs://b", "GOOGLE_BASE_URL"), ("az://b", "AZURE_STORAGE_ENDPOINT")):
        assert complete_options(url, {}, {name: HTTP}) == {"allow_http": "true"}
        assert complete_options(url, {}, MINIO) == {}


def test_what_variables_said_travels_with_a_store_to_where_there_are_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in MINIO.items():
        monkeypatch.setenv(name, value)
    spec = StoreSpec("s3://bucket/ns")
    for name in MINIO:
        monkeypatch.delenv(name)
    there: StoreSpec = pickle.loads(pickle.dumps(spec))
    assert there.options["secret_access_key"] == "hidden"
    assert "hidden" not in repr(there)


def test_a_folder_has_no_use_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in MINIO.items():
        monkeypatch.setenv(name, value)
    assert open_store("/data").url == "file:///data"
    assert StoreSpec("/data").options == {}
