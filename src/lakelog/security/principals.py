"""Principals: whom a client has proved to be, by Kafka's names.

    User:alice        what ACLs, quotas and audits say; of a login, its name
    User:ANONYMOUS    whoever has proved nothing
    User:CN=alice     of a client's certificate: its subject, or what rules make of it

Rules are Kafka's ``ssl.principal.mapping.rules``, separated by commas; the first that matches the
whole subject counts, and DEFAULT is the subject as it is:

    RULE:^CN=(.*?),OU=ops.*$/$1@ops/L, DEFAULT

A rule may end in L or U: what it makes is in lower or upper case. Java's $1 is written as Java
does; the patterns are Python's, which understands all that such rules use.
"""

import re
from typing import NamedTuple

from lakelog.errors import InvalidInputError

__all__ = ["ANONYMOUS", "Principal", "PrincipalRules"]

USER = "User"
RULES_CHARS_MAX = 16_384
_RULE = re.compile(r"RULE:((?:\\.|[^\\/])+)/((?:\\.|[^\\/])*)/([LU]?)")
_GROUP = re.compile(r"\$(\d)")


class Principal(NamedTuple):
    """Whom a client has proved to be."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def user(cls, name: str) -> "Principal":
        """Return the principal of a login."""
        return cls(USER, name)

    @classmethod
    def parse(cls, text: str) -> "Principal":
        """Return a principal from its text.

        Raises:
            InvalidInputError: it is not KIND:NAME.
        """
        kind, colon, name = text.partition(":")
        if not kind or not colon or not name:
            raise InvalidInputError(f"{text!r} names no principal: write User:NAME")
        return cls(kind, name)


ANONYMOUS = Principal.user("ANONYMOUS")


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    template: str
    case: str


class PrincipalRules:
    """The names that certificates are given."""

    def __init__(self, text: str = "DEFAULT") -> None:
        """Read rules.

        Raises:
            InvalidInputError: they cannot be read.
        """
        if len(text) > RULES_CHARS_MAX:
            raise InvalidInputError(
                f"ssl.principal.mapping.rules has {len(text)} characters: use {RULES_CHARS_MAX} at"
                " most"
            )
        self._rules = [_parsed(one) for one in _split(text)]

    def name(self, subject: str) -> str:
        """Return the name of a certificate's subject.

        Raises:
            InvalidInputError: no rule matches it.
        """
        for rule in self._rules:
            if rule is None:
                return subject
            found = rule.pattern.fullmatch(subject)
            if found is None:
                continue
            groups = [subject, *found.groups("")]
            made = _GROUP.sub(lambda at: groups[int(at[1])], rule.template)  # noqa: B023
            return {"L": made.lower(), "U": made.upper()}.get(rule.case, made)
        raise InvalidInputError(
            f"no rule of ssl.principal.mapping.rules matches {subject!r}: add one, or DEFAULT"
        )


def _split(text: str) -> list[str]:
    """Return rules one by one. A comma separates them where the next one begins."""
    rules = [one.strip() for one in re.split(r",\s*(?=DEFAULT|RULE:)", text.strip())]
    return rules if any(rules) else ["DEFAULT"]


def _parsed(rule: str) -> _Rule | None:
    if rule == "DEFAULT":
        return None
    found = _RULE.fullmatch(rule)
    if found is None:
        raise InvalidInputError(
            f"ssl.principal.mapping.rules: {rule!r} is no rule: write RULE:pattern/replacement/,"
            " with L or U behind it for lower or upper case, or DEFAULT"
        )
    pattern, template, case = found.groups()
    try:
        compiled = re.compile(pattern.replace("\\/", "/"))
    except re.error as error:
        raise InvalidInputError(
            f"ssl.principal.mapping.rules: the pattern of {rule!r} cannot be read: {error}"
        ) from error
    if any(int(number) > compiled.groups for number in _GROUP.findall(template)):
        raise InvalidInputError(
            f"ssl.principal.mapping.rules: {rule!r} names a group that its pattern has not got"
        )
    return _Rule(compiled, template.replace("\\/", "/"), case)
