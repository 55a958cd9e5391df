"""What went wrong with configs and defaults elsewhere, by the numbers of CVEs; it must not here.

docs/explanation/cves.md lists all that we know of, and why some of them cannot be ours.
"""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from kio.schema.errors import ErrorCode

from lakelog.broker import BrokerSettings, Verdict, translate_kafka_config
from lakelog.broker.http import HttpServer
from lakelog.broker.listener_descriptions import describe_listeners
from lakelog.broker.settings import AuthorizerSettings
from lakelog.catalog import read_topic
from lakelog.cli import main
from lakelog.errors import InvalidInputError
from tests.unit.broker.site import Client, Site, broker, connect, story
from tests.unit.broker.test_http import Talk, get
from tests.unit.broker.test_http import served as http_served
from tests.unit.broker.test_listener_configs import MODULE, SASL, TOKENS

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "explanation" / "cves.md"
TOPIC, BROKER = 2, 4
JNDI = "com.sun.security.auth.module.JndiLoginModule required"
LDAP = "com.sun.security.auth.module.LdapLoginModule required"


async def alter(client: Client, key: int, kind: int, name: str, config: str, value: str) -> Any:
    row: dict[str, Any] = {"name": config, "value": value}
    if key == 44:
        row["config_operation"] = 0
    resource = {"resource_type": kind, "resource_name": name, "configs": [row]}
    found = await client.ask(key, 1, resources=[resource], validate_only=False)
    return found.responses[0]


# ---------------------------------------------------------------------------- configs of clients


def refuses(key: int, kind: int, name: str, config: str, value: str) -> None:
    """No client changes such a config, whatever it may do: there are no ACLs in this story."""

    @story
    async def told() -> None:
        site = Site()
        site.create("t")
        async with broker(site, node_id=1) as running:
            client = await connect(running)
            before = running.services.settings
            found = await alter(client, key, kind, name, config, value)
            assert found.error_code in (ErrorCode.invalid_request, ErrorCode.invalid_config)
            assert running.services.settings is before
            assert site.do(read_topic("t")).configs == {}
            await client.close()

    told()


def test_cve_2025_27819_no_client_configures_how_a_broker_logs_in() -> None:
    """Whoever had the right to alter configs could name JndiLoginModule in the config of a Kafka
    broker, which then ran what a server of theirs sent. Configs of a broker do not change here.
    """
    for config in ("sasl.jaas.config", "listener.name.x.plain.sasl.jaas.config"):
        value = f'{JNDI} user.provider.url="ldap://127.0.0.1/x";'
        refuses(33, BROKER, "1", config, value)
        refuses(44, BROKER, "1", config, value)


def test_cve_2025_27818_no_config_names_what_a_broker_runs() -> None:
    """The same by LdapLoginModule. In a file of the broker's own, too, a module is a word: only a
    name and a password are taken, and nothing is loaded or called.
    """
    refuses(44, BROKER, "1", "sasl.jaas.config", f'{LDAP} userProvider="ldap://127.0.0.1/x";')
    lines = {**SASL, "sasl.jaas.config": f'{LDAP} userProvider="ldap://127.0.0.1/x";'}
    (listener,) = translate_kafka_config(lines, BrokerSettings()).settings.listeners
    assert listener.logins is not None
    assert listener.logins.peer is None
    calls = {"import_module", "__import__", "exec", "eval", "loads"}
    for name in ("listener_configs.py", "login_configs.py", "translating.py", "settings.py"):
        tree = ast.parse((HERE.parents[2] / "src/lakelog/broker" / name).read_text())
        called = [one.func for one in ast.walk(tree) if isinstance(one, ast.Call)]
        names = {getattr(one, "id", getattr(one, "attr", "")) for one in called}
        assert not calls & names


def test_cve_2023_25194_no_config_of_a_topic_is_one_of_a_client() -> None:
    """In Kafka Connect configs of connectors went to clients inside, and so did what those run.
    Here only configs of topics can be changed, by name and by value; a class is none of them.
    """
    for config in ("producer.override.sasl.jaas.config", "sasl.jaas.config", "interceptor.classes"):
        refuses(44, TOPIC, "t", config, f'{JNDI} user.provider.url="ldap://127.0.0.1/x";')
    for name in ("com.example.Evil", "os.system"):
        with pytest.raises(InvalidInputError, match="StandardAuthorizer"):
            AuthorizerSettings(class_name=name)
    lines = {"principal.builder.class": "com.example.Evil", "metric.reporters": "com.example.Evil"}
    found = translate_kafka_config(lines, BrokerSettings())
    assert {one.verdict for one in found.lines} == {Verdict.IGNORED}


def test_cve_2024_31141_no_value_of_a_config_is_read_from_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Kafka's clients replaced ${file:…} and ${env:…} in configs that others gave them, and so read
    files and variables for them. A value is taken as it is written.
    """
    monkeypatch.setenv("LAKELOG_TEST_HIDDEN", "hunter2")
    (tmp_path / "hidden").write_text("key=hunter2")
    places = ("${env:LAKELOG_TEST_HIDDEN}", f"${{file:{tmp_path}/hidden:key}}")
    for place in (*places, "$LAKELOG_TEST_HIDDEN", "%(LAKELOG_TEST_HIDDEN)s"):
        refuses(44, TOPIC, "t", "retention.ms", place)
        lines = {"config.providers": "env,file", "super.users": f"User:{place}"}
        settings = translate_kafka_config(lines, BrokerSettings()).settings
        assert settings.authorizer.super_users == f"User:{place}"


# ---------------------------------------------------------------------------- secrets

SECRETS = {
    **SASL,
    "ssl.key.password": "hunter2",
    "ssl.keystore.key": "hunter2",
    "ssl.keystore.certificate.chain": "hunter2",
    "listener.name.clients.ssl.truststore.certificates": "hunter2",
    "listener.name.clients.scram-sha-512.sasl.jaas.config": (
        f'{MODULE} username="broker" password="hunter2";'
    ),
    "sasl.jaas.config": f'{MODULE} username="broker" password="hunter2";',
}


@story
async def test_cve_2019_12399_configs_are_described_without_their_secrets() -> None:
    """Kafka Connect showed secrets in what it told of its tasks. What is told of a broker here has
    none: they are known to be there, and have no value.
    """
    settings = translate_kafka_config(SECRETS, BrokerSettings()).settings
    shown = {one.name: one for one in describe_listeners(settings)}
    secret = [name for name, value in SECRETS.items() if "hunter2" in value]
    assert all(shown[name].is_sensitive and shown[name].value is None for name in secret)
    assert "hunter2" not in str(shown)
    async with broker(Site(), node_id=1, listener_configs=settings.listener_configs) as running:
        client = await connect(running)
        resource = {"resource_type": BROKER, "resource_name": "1", "configuration_keys": None}
        found = await client.ask(
            32, 4, resources=[resource], include_synonyms=True, include_documentation=True
        )
        rows = {one.name: one for one in found.results[0].configs}
        assert all(rows[name].is_sensitive and rows[name].value is None for name in secret)
        assert "hunter2" not in str(found)
        await client.close()


@pytest.mark.parametrize(
    "words",
    [
        ("topic", "list", "--storage", "s3://nowhere/log"),
        ("user", "list", "--storage", "s3://nowhere/log"),
        ("doctor", "store", "s3://nowhere/log"),
    ],
)
def test_cve_2023_24619_no_command_shows_the_credentials_that_it_was_given(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redpanda's rpk wrote the keys of AWS to its output when it imported a config."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAHUNTER2")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2hunter2")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    done = called(*words, "--store-option", "timeout=1s")
    assert done.exit_code != 0
    assert "http://127.0.0.1:9" in done.output
    assert "hunter2" not in done.output.lower() + str(done.exception).lower()


def called(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


# ---------------------------------------------------------------------------- what is open


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ({"listeners": "RPC://h:1"}, "listener.security.protocol.map"),
        ({"listeners": "SSL://h:1"}, "ssl.keystore.location"),
        (
            {"listeners": "RPC://h:1", "listener.security.protocol.map": "RPC:[SSL]"},
            "listener.security.protocol.map",
        ),
        (
            {"listeners": "PLAINTEXT://h:1", "security.inter.broker.protocol": "SSL"},
            "use one of listeners",
        ),
        ({**SASL, "ssl.client.auth": "none", "ssl.keystore.type": "[PEM]"}, "PEM"),
        ({**SASL, **TOKENS, "sasl.oauthbearer.expected.issuer": " "}, "expected.issuer"),
    ],
)
def test_cve_2023_30450_a_listener_whose_tls_cannot_be_understood_is_not_opened_without(
    lines: dict[str, str], words: str
) -> None:
    """Redpanda's rpk could not read how brokers were to use TLS between them, and left it away."""
    with pytest.raises(InvalidInputError, match=re.escape(words)):
        translate_kafka_config(lines, BrokerSettings())


def test_cve_2026_82266_nothing_is_administered_over_http_and_nothing_listens_to_all(
    tmp_path: Path,
) -> None:
    """Redpanda's admin API listened on all addresses by default and took whoever came for a super
    user. Here HTTP has three paths to read, on loopback unless somebody says otherwise twice.
    """
    (tmp_path / "mine.txt").write_text("so that no broker would start there")
    for option in ("--http", "--listen"):
        done = called("serve", "--storage", f"file://{tmp_path}", option, "0.0.0.0:9644")
        assert done.exit_code == 2
        assert "--insecure" in done.output

    async def asked(server: HttpServer, talk: Talk) -> None:
        assert server.address[0] == "127.0.0.1"
        for method in (b"POST", b"PUT", b"DELETE", b"PATCH"):
            status, _, _ = await talk(method + get("/healthz")[3:])
            assert status in (400, 405)
        for path in ("/v1/security/users", "/v1/cluster_config", "/admin", "/"):
            assert (await talk(get(path)))[0] == 404

    http_served(asked)


# ---------------------------------------------------------------------------- the page


def test_every_cve_on_the_page_has_its_test_or_its_reason_and_every_test_is_on_the_page() -> None:
    tests: set[str] = set()
    for file in HERE.glob("test_cves_of_*.py"):
        tests |= set(re.findall(r"def (test_cve_\w+)", file.read_text()))
    page = PAGE.read_text()
    named = re.findall(r"`(test_cve_\w+?)`", page)
    assert len(named) == len(set(named))
    assert set(named) == tests
    for line in page.splitlines():
        found = re.match(r"\| \[CVE-(\d+)-(\d+)\]\(https://[^)]+\) \|", line)
        if found is None:
            assert not re.match(r"\| \[?CVE-", line), line
            continue
        own = [one for one in tests if one.startswith(f"test_cve_{found[1]}_{found[2]}_")]
        assert bool(own) == ("`test_cve_" in line), line
        assert all(f"`{one}`" in line for one in own), line
