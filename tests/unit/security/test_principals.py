"""Names of principals, and rules for certificates; the examples are those of Kafka's documentation
and of its own tests.
"""

import pytest

from lakelog.errors import InvalidInputError
from lakelog.security import ANONYMOUS, Principal, PrincipalRules

DOCUMENTED = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT"
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
        ("CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        ("O=Unknown,Cn=Duke.Of", "duke.of"),
        ("OU=Admin,O=nobody's", "OU=Admin,O=nobody's"),
    ],
)
def test_the_first_rule_that_matches_the_whole_subject_counts(subject: str, name: str) -> None:
    assert PrincipalRules(DOCUMENTED).name(subject) == name


def test_a_subject_is_its_own_name_without_rules() -> None:
    for text in ("", "DEFAULT", "  DEFAULT "):
        assert PrincipalRules(text).name("CN=a,O=b") == "CN=a,O=b"


def test_cases_and_slashes() -> None:
    assert PrincipalRules(r"RULE:^CN=(\w+)$/$1/U").name("CN=abc") == "ABC"
    assert PrincipalRules(r"RULE:^CN=(\w+)\/x$/$1\/y/").name("CN=abc/x") == "abc/y"
    assert PrincipalRules("RULE:^CN=(a)?(b)$/$1-$2/").name("CN=b") == "-b"


def test_what_no_rule_matches_has_no_name() -> None:
    with pytest.raises(InvalidInputError, match="add one, or DEFAULT"):
        PrincipalRules("RULE:^CN=a$/a/").name("CN=ab")


@pytest.mark.parametrize(
    "text",
    [
        "default",
        "RULE:",
        "RULE:^CN=(.*)$/$1",
        "RULE:^CN=(.*)$/$1/X",
        "RULE:^CN=([a-z)$/$1/",
        "RULE:^CN=(.*)$/$2/",
        "DEFAULT,what",
        "RULE:" + "a" * 20_000 + "/b/",
    ],
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(text)


def test_a_principal_is_its_kind_and_its_name() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"
    assert Principal.parse("User:CN=a:b") == Principal("User", "CN=a:b")
    assert Principal.parse(str(Principal.user("alice"))) == Principal.user("alice")
    for text in ("alice", "User:", ":alice", ""):
        with pytest.raises(InvalidInputError, match="User:NAME"):
            Principal.parse(text)
