"""What each process may do to the objects of a namespace, as a policy of S3's IAM.

               reads                      creates, replaces            deletes
    broker     all                        all                          all
    pipeline   all but ``_SECRET``        the same but ``_BROKERS``    the same but ``_BROKERS``
    reader     all but ``_PRIVATE``       -                            -
    writer     what an append looks at    attempts, commits, bundles   its moments of the clock
    spool      the same                   the same                     the same

A name of a topic is the first part of its keys, so "all topics" can only be said as "all" less what
is denied. Whoever reads a lane reads records of every topic: a bundle mixes them. A policy keeps a
process from what it has no need of; it does not keep topics apart.
"""

import json
from typing import NamedTuple

from lakelog.errors import InvalidInputError
from lakelog.names import (
    ACLS_KEY,
    BROKERS_PREFIX,
    CLUSTER_KEY,
    COMMITS_PREFIX,
    GROUPS_PREFIX,
    LANES_PREFIX,
    MIRROR_PREFIX,
    QUOTAS_KEY,
    STAGED_PREFIX,
    TIME_PREFIX,
    TOPICS_PREFIX,
    USERS_KEY,
)

__all__ = ["ROLES", "Role", "bucket_policy"]

_ALL = ("*",)
_SECRET = (USERS_KEY, ACLS_KEY, QUOTAS_KEY)
"""SCRAM keys, from which passwords can be guessed, and who may do what."""
_BROKERS = (CLUSTER_KEY, f"{GROUPS_PREFIX}*", f"{MIRROR_PREFIX}*", f"{BROKERS_PREFIX}*")
_PRIVATE = (*_SECRET, *_BROKERS[1:], f"{COMMITS_PREFIX}*")
_MOMENTS = f"{TIME_PREFIX}*"
_APPENDED = (f"{STAGED_PREFIX}*", f"{COMMITS_PREFIX}*", f"{LANES_PREFIX}*.bundle", _MOMENTS)


class Role(NamedTuple):
    """What a process may do, by patterns of keys in which ``*`` stands for anything."""

    what: str
    get: tuple[str, ...]
    put: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    """Nothing at all is done to these."""
    unchanged: tuple[str, ...] = ()
    """Nothing is stored there, and nothing deleted."""
    lifecycle: bool = False
    """It reads which rules of the bucket delete objects, and refuses those that would delete its
    own."""


_APPENDS = Role(
    "",
    get=(CLUSTER_KEY, f"{TOPICS_PREFIX}*", f"{LANES_PREFIX}*", *_APPENDED[:2], _MOMENTS),
    put=_APPENDED,
    delete=(_MOMENTS,),
)

ROLES = {
    "broker": Role(
        "A broker: `lakelog serve`, and commands that administer a namespace.",
        get=_ALL,
        put=_ALL,
        delete=_ALL,
        lifecycle=True,
    ),
    "pipeline": Role(
        "Maintenance: `lakelog pipeline` and `lakelog keep`.",
        get=_ALL,
        put=_ALL,
        delete=_ALL,
        never=_SECRET,
        unchanged=_BROKERS,
    ),
    "reader": Role("A Spark job that reads topics.", get=_ALL, never=_PRIVATE),
    "writer": _APPENDS._replace(what="A Spark job that writes to topics."),
    "spool": _APPENDS._replace(what="A spool that is shipped to topics."),
}


def bucket_policy(role: str, bucket: str, folder: str) -> str:
    """Return the policy of a role for a namespace, as JSON."""
    if role not in ROLES:
        raise InvalidInputError(f"there is no role {role!r}: {', '.join(ROLES)}")
    row = ROLES[role]
    arn = f"arn:aws:s3:::{bucket}"
    prefix = f"{folder.strip('/')}/" if folder.strip("/") else ""
    at = f"{arn}/{prefix}"
    statements = [
        _statement("Allow", "Get", ["s3:GetObject"], [f"{at}{key}" for key in row.get]),
        _statement("Allow", "Put", ["s3:PutObject"], [f"{at}{key}" for key in row.put]),
        _statement("Allow", "Delete", ["s3:DeleteObject"], [f"{at}{key}" for key in row.delete]),
        _statement("Allow", "List", ["s3:ListBucket"], [arn]),
        _statement("Deny", "Never", ["s3:*"], [f"{at}{key}" for key in row.never]),
        _statement(
            "Deny",
            "Unchanged",
            ["s3:PutObject", "s3:DeleteObject"],
            [f"{at}{key}" for key in row.unchanged],
        ),
    ]
    if prefix:
        statements[3]["Condition"] = {"StringLike": {"s3:prefix": [f"{prefix}*"]}}
        # To somebody who may not list, S3 says 403 of an object that is not there, and not 404; and
        # a request for one object has no prefix.
        missing = _statement("Allow", "Missing", ["s3:ListBucket"], [arn])
        statements.append(missing | {"Condition": {"Null": {"s3:prefix": "true"}}})
    if row.lifecycle:
        statements.append(_statement("Allow", "Rules", ["s3:GetLifecycleConfiguration"], [arn]))
    used = [one for one in statements if one["Resource"]]
    return json.dumps({"Version": "2012-10-17", "Statement": used}, indent=2)


def _statement(
    effect: str, name: str, actions: list[str], resources: list[str]
) -> dict[str, object]:
    return {"Sid": name, "Effect": effect, "Action": actions, "Resource": resources}
