"""Pages that are made of tables in the code: `python -m tests.generated` writes them anew.

A page whose table has changed fails its test, which names this command.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from lakelog.broker import BrokerSettings
from lakelog.broker.config_table import BROKER_CONFIGS, TOPIC_DEFAULTS
from lakelog.broker.fixed_limits import FIXED_LIMITS
from lakelog.broker.limits import LIMITS, Limit
from lakelog.broker.listener_configs import LISTENER_CONFIGS
from lakelog.catalog import TOPIC_CONFIGS, TopicConfig
from lakelog.wire import APIS

__all__ = ["GENERATED", "ROOT", "stale"]

ROOT = Path(__file__).parents[1]


def configs_page() -> str:
    """Return the page of configs."""
    acting = [row for row in TOPIC_CONFIGS.values() if not row.no_effect]
    others = [row for row in TOPIC_CONFIGS.values() if row.no_effect]
    lines = [
        "# Configs of topics and brokers",
        "",
        "<!-- Made by python -m tests.generated: change the tables in src/lakelog instead. -->",
        "",
        "Topics take Kafka's configs, by Kafka's names: by `lakelog topic create --config K=V` or",
        "any Kafka client. A name that is not on this page is refused, and so is a value that",
        "Kafka would refuse. Defaults are Kafka's.",
        "",
        "## Those that act",
        "",
        "| name | default | allowed | what it does |",
        "|---|---|---|---|",
        *(f"| {_start(row)} | {row.doc} |" for row in acting),
        "",
        "## Those that are kept, and do nothing",
        "",
        "They are stored and shown, so that scripts for Kafka work unchanged.",
        "",
        "| name | default | allowed | in Kafka | why it does nothing here |",
        "|---|---|---|---|---|",
        *(f"| {_start(row)} | {row.doc} | {row.no_effect} |" for row in others),
        "",
        "## Of a broker, in a server.properties",
        "",
        "`lakelog serve --kafka-config FILE --explain` says of each line what becomes of it.",
        "These are settings of a broker:",
        "",
        "| name | default here | what it is |",
        "|---|---|---|",
        *(
            f"| `{name}` | `{row.get(BrokerSettings().placed(in_etcd=False))}` | {row.doc} |"
            for name, row in BROKER_CONFIGS.items()
        ),
        "",
        "These are of its listeners. `listener.name.NAME.` before a config of TLS makes it that of",
        "one listener, with its name in small letters:",
        "",
        "| name | what it is |",
        "|---|---|",
        *(f"| `{name}` | {doc} |" for name, doc in LISTENER_CONFIGS.items()),
        "",
        "These are stored with the topics that the broker makes, unless those have their own:",
        "",
        "| name | config of a topic |",
        "|---|---|",
        *(f"| `{name}` | `{row.topic_config}` |" for name, row in TOPIC_DEFAULTS.items()),
        "",
        "Every other config of Kafka's has no effect, and `--explain` says why.",
        "",
    ]
    return "\n".join(lines)


def _start(row: TopicConfig) -> str:
    default = "2^63 - 1" if row.default == str(2**63 - 1) else row.default
    return f"`{row.name}` | {f'`{default}`' if default else ''} | {row.words}"


def protocol_page() -> str:
    """Return the page of Kafka's APIs."""
    lines = [
        "# The protocol",
        "",
        "<!-- Made by python -m tests.generated: change the table in src/lakelog/wire instead. -->",
        "",
        "What a broker answers to ApiVersions, and nothing else: an API that is not here is not",
        "advertised, so clients do not try it. [What is not supported](not-supported.md) says why.",
        "Each API is a module in `src/lakelog/broker/api`, whose first lines say how it behaves.",
        "",
        "| key | API | versions | flexible from | notes |",
        "|---|---|---|---|---|",
        *(
            f"| {api.key} | {api.name} | {api.min_version} to {api.max_version}"
            f" | {api.flexible_from} | {api.note} |"
            for api in APIS.values()
        ),
        "",
        "A request of another key or version closes its connection, as in Kafka; an ApiVersions",
        "request of an unknown version is answered in version 0, with this table.",
        "",
    ]
    return "\n".join(lines)


def limits_page() -> str:
    """Return the page of what clients may use of a broker."""
    lines = [
        "# Limits",
        "",
        "<!-- Made by python -m tests.generated: change src/lakelog/broker/limits.py instead. -->",
        "",
        "What a client may use of a broker, what happens when it asks for more, and whom that",
        "protects. What the broker closes, refuses or drops it counts, and says why in its log.",
        "",
        "## Those that can be set",
        "",
        "Those with a name of Kafka's in a `server.properties`, which `lakelog serve",
        "--kafka-config FILE` reads; all of them in `lakelog.broker.Limits`.",
        "",
        "| what | default | name | in Kafka | beyond it | it protects |",
        "|---|---|---|---|---|---|",
        *map(_limit_row, LIMITS),
        "",
        "## Those that are fixed",
        "",
        "| what | limit | name | in Kafka | beyond it | it protects |",
        "|---|---|---|---|---|---|",
        *map(_limit_row, FIXED_LIMITS),
        "",
        "## With several workers",
        "",
        "Of `lakelog serve --workers N` each worker has an Nth of what is the machine's, so that",
        "all of them together use what one broker would, and one at least:",
        ", ".join(f"`{row.name}`" for row in LIMITS if row.divided) + ".",
        "Each maintenance process has an Nth of its memory, and 512 MiB at least. What is left is",
        "of one request, connection, shard or process, or of the whole namespace: each worker has",
        "it whole.",
        "",
    ]
    return "\n".join(lines)


def _limit_row(row: Limit) -> str:
    kafka = f"`{row.kafka}`" if row.kafka else ""
    size = _amount(row)
    return f"| {row.what} | {size} | `{row.name}` | {kafka} | {row.beyond} | {row.protects} |"


def _amount(row: Limit) -> str:
    """Return a limit as people write it: its name says what it counts."""
    value = row.default
    if "_ms" in row.name.lower():
        return f"{value / 1000:g} s"
    if "bytes" in row.name.lower():
        for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
            if value and value % size == 0:
                return f"{value // size:,} {unit}"
    return f"{value:,}"


GENERATED: Mapping[str, Callable[[], str]] = {
    "docs/reference/configs.md": configs_page,
    "docs/reference/limits.md": limits_page,
    "docs/reference/protocol.md": protocol_page,
}


def stale() -> list[str]:
    """Return the pages that are not what their tables say."""
    return [name for name, make in GENERATED.items() if (ROOT / name).read_text() != make()]


if __name__ == "__main__":
    for name, make in GENERATED.items():
        (ROOT / name).write_text(make())
