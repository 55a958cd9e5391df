"""Policies of a namespace that is a bucket, and of one that is a folder of it."""

import json

import pytest

from lakelog.errors import InvalidInputError
from lakelog.security import ROLES, bucket_policy


def resources(policy: str) -> set[str]:
    return {one for row in json.loads(policy)["Statement"] for one in row["Resource"]}


@pytest.mark.parametrize("role", ROLES)
def test_only_objects_of_the_namespace_are_named(role: str) -> None:
    bucket, folder = "arn:aws:s3:::logs", "arn:aws:s3:::logs/prod/"
    for named in resources(bucket_policy(role, "logs", "/prod/")) - {bucket}:
        assert named.startswith(folder)
    whole = resources(bucket_policy(role, "logs", "/"))
    assert whole == {
        one.replace("logs/prod/", "logs/") for one in resources(bucket_policy(role, "logs", "prod"))
    }


def test_a_role_that_is_not_there() -> None:
    with pytest.raises(InvalidInputError, match="there is no role 'cook': broker, pipeline"):
        bucket_policy("cook", "logs", "prod")
