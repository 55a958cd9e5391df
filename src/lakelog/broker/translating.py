"""A broker's settings out of Kafka's: what becomes of every line of a server.properties.

    used         as it stands
    translated   under another name or in another unit
    ignored      it has no effect here, and why; or it is not known

A line that would make this broker less safe than its author believes is refused, a listener whose
certificate cannot be had for instance: to open a plain one in its place would be the wrong answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from lakelog.broker.config_table import (
    BROKER_CONFIGS,
    TOPIC_DEFAULTS,
    no_effect,
    parse_broker_config,
)
from lakelog.broker.listener_configs import (
    inter_broker_listener,
    is_listener_config,
    translate_listeners,
)
from lakelog.broker.settings import BrokerSettings
from lakelog.catalog import ConfigType, check_configs

__all__ = ["TranslatedLine", "Translation", "Verdict", "translate_kafka_config"]

KEEP_EVERY = "log.retention.check.interval.ms"
_UNSET = "-1"
_VALUE_CHARS_SHOWN = 60
_SECRETS = ("password", "secret", "jaas", "ssl.keystore.key")


class Verdict(Enum):
    """What became of a line."""

    USED = "used"
    TRANSLATED = "translated"
    IGNORED = "ignored"


class TranslatedLine(NamedTuple):
    """One line, and what became of it."""

    name: str
    value: str
    verdict: Verdict
    words: str = ""


@dataclass(frozen=True, slots=True)
class Translation:
    """What a server.properties asks for."""

    settings: BrokerSettings
    keep_every_ms: int | None
    """How often the log is kept; None: it does not say."""
    lines: tuple[TranslatedLine, ...]


def translate_kafka_config(lines: Mapping[str, str], settings: BrokerSettings) -> Translation:
    """Return the settings that Kafka's configs ask for, and what became of each of them.

    Raises:
        InvalidInputError: a value is wrong, or asks for what is not here and would be missed.
    """
    translated: list[TranslatedLine] = []
    keep_every_ms: int | None = None
    if "node.id" not in lines and lines.get("broker.id", _UNSET).strip() != _UNSET:
        settings = BROKER_CONFIGS["node.id"].set(settings, lines["broker.id"])
    for name, value in lines.items():
        row = BROKER_CONFIGS.get(name)
        verdict, words = Verdict.USED, ""
        if name == "broker.id":
            verdict, words = Verdict.TRANSLATED, "node.id"
        elif row is not None and value.strip() == _UNSET:
            verdict, words = Verdict.IGNORED, f"stays {row.get(settings)}"
        elif row is not None:
            settings = row.set(settings, value)
        elif name == KEEP_EVERY:
            keep_every_ms = int(parse_broker_config(name, ConfigType.LONG, value))
            verdict, words = Verdict.TRANSLATED, "--keep-every"
        elif name in TOPIC_DEFAULTS:
            verdict, words = _default(name, lines)
        elif not is_listener_config(name):
            why = no_effect(name) or "no config of Kafka 4: check its name"
            verdict, words = Verdict.IGNORED, why
        hidden = any(word in name for word in _SECRETS)
        shown = "[hidden]" if hidden else value[:_VALUE_CHARS_SHOWN]
        translated.append(TranslatedLine(name, shown, verdict, words))
    listeners = translate_listeners(lines)
    if listeners:
        called = inter_broker_listener(lines, listeners)
        given = {name: value for name, value in lines.items() if is_listener_config(name)}
        settings = replace(
            settings,
            listeners=listeners,
            inter_broker_listener=called,
            listener_configs=given,
        )
    defaults = check_configs(_topic_defaults(lines))
    return Translation(replace(settings, topic_defaults=defaults), keep_every_ms, tuple(translated))


# ---------------------------------------------------------------------------- topics


def _default(name: str, lines: Mapping[str, str]) -> tuple[Verdict, str]:
    topic_config = TOPIC_DEFAULTS[name].topic_config
    finer = next(
        one
        for one, row in TOPIC_DEFAULTS.items()
        if row.topic_config == topic_config and one in lines
    )
    if finer != name:
        return Verdict.IGNORED, f"{finer} counts"
    return Verdict.TRANSLATED, f"{topic_config} of the topics it makes"


def _topic_defaults(lines: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, row in TOPIC_DEFAULTS.items():
        value = lines.get(name)
        if value is None or row.topic_config in found:
            continue
        if row.unit > 1:
            number = int(parse_broker_config(name, ConfigType.LONG, value))
            value = str(number * row.unit if number >= 0 else number)
        found[row.topic_config] = value
    return found
