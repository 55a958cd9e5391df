"""DescribeConfigs (key 32, versions 1 to 4): of topics, and of this broker.

Behaviour
    A resource that is named twice is described once, as it was named last: a description is a
    thousand times as long as a name.
"""

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.errors import ErrorCode

from lakelog.broker.codes import read_code
from lakelog.broker.config_table import BROKER_CONFIGS, TOPIC_DEFAULTS
from lakelog.broker.listener_descriptions import describe_listeners
from lakelog.broker.services import Call, Services
from lakelog.broker.settings import BrokerSettings
from lakelog.broker.turns import in_turns
from lakelog.catalog import (
    TOPIC_CONFIGS,
    ConfigSource,
    ConfigType,
    DescribedConfig,
    Synonym,
    describe_configs,
)
from lakelog.errors import LakelogError
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["BROKER", "TOPIC", "denied", "describe_broker_configs"]

TOPIC, BROKER, GROUP = 2, 4, 32


async def describe_broker_configs(
    services: Services,
    call: Call,
    request: DescribeConfigsRequest,
) -> Fields:
    """Say how topics and brokers are configured."""
    rows: list[Fields] = []
    wanted = {_key(one): one for one in request.resources}
    async for resource in in_turns(wanted.values()):
        type_, name = int(resource.resource_type), str(resource.resource_name)
        refused = denied(call, Operation.DESCRIBE_CONFIGS, type_, name)
        found = (*refused, []) if refused else await _configs(services, resource)
        code, message, configs = found
        rows.append(
            {
                "error_code": code,
                "error_message": message,
                "resource_type": resource.resource_type,
                "resource_name": resource.resource_name,
                "configs": [_row(one, request) for one in configs],
            }
        )
    return {"results": rows}


def denied(
    call: Call, operation: Operation, resource_type: int, name: str
) -> tuple[ErrorCode, str] | None:
    """Say why a client may not do this with the configs of a resource; None: it may."""
    if resource_type == TOPIC:
        code, may = ErrorCode.topic_authorization_failed, call.may_topic(operation, name)
    elif resource_type == GROUP:
        code, may = ErrorCode.group_authorization_failed, call.may_group(operation, name)
    else:
        code, may = ErrorCode.cluster_authorization_failed, call.may_cluster(operation)
    return None if may else (code, f"{code.name.replace('_', ' ').capitalize()}.")


def _key(resource: DescribeConfigsResource) -> tuple[int, str, tuple[str, ...] | None]:
    keys = resource.configuration_keys
    return int(resource.resource_type), str(resource.resource_name), keys and tuple(map(str, keys))


async def _configs(
    services: Services, resource: DescribeConfigsResource
) -> tuple[ErrorCode, str | None, list[DescribedConfig]]:
    keys = resource.configuration_keys
    names = None if keys is None else {str(key) for key in keys}
    if resource.resource_type == TOPIC:
        try:
            topic = await services.catalog.topic(str(resource.resource_name))
        except LakelogError as error:
            return read_code(error), str(error), []
        if topic is None:
            return ErrorCode.unknown_topic_or_partition, None, []
        return ErrorCode.none, None, describe_configs(topic.configs, names)
    if resource.resource_type == BROKER:
        if resource.resource_name not in ("", str(services.cluster.node_id)):
            return ErrorCode.invalid_request, f"there is no broker {resource.resource_name}", []
        rows = _broker_configs(services)
        return ErrorCode.none, None, [row for row in rows if names is None or row.name in names]
    return ErrorCode.invalid_request, "ask for topics (2) or brokers (4)", []


def _broker_configs(services: Services) -> list[DescribedConfig]:
    """Return what this broker was told, and what it would do if it had not been."""
    settings, plain = services.settings, BrokerSettings().placed(in_etcd=False)
    rows = [
        _described(name, row.type, row.get(settings), row.get(plain), row.doc)
        for name, row in BROKER_CONFIGS.items()
    ]
    for name, default in TOPIC_DEFAULTS.items():
        topic_config = TOPIC_CONFIGS[default.topic_config]
        if default.unit == 1:
            value = settings.topic_defaults.get(topic_config.name, topic_config.default)
            doc = f"The default of {topic_config.name} for topics that are made here."
            rows.append(_described(name, topic_config.type, value, topic_config.default, doc))
    rows += describe_listeners(settings)
    return sorted(rows, key=lambda row: row.name)


def _described(name: str, kind: ConfigType, value: str, default: str, doc: str) -> DescribedConfig:
    synonyms = [Synonym(name, default, ConfigSource.DEFAULT)]
    if value != default:
        synonyms.insert(0, Synonym(name, value, ConfigSource.BROKER))
    return DescribedConfig(
        name=name,
        value=value,
        type=kind,
        source=synonyms[0].source,
        synonyms=tuple(synonyms),
        documentation=doc,
        is_read_only=True,
    )


def _row(one: DescribedConfig, request: DescribeConfigsRequest) -> Fields:
    synonyms = one.synonyms if request.include_synonyms else ()
    return {
        "name": one.name,
        "value": None if one.is_sensitive else one.value,
        "read_only": one.is_read_only,
        "config_source": int(one.source),
        "is_sensitive": one.is_sensitive,
        "config_type": int(one.type),
        "documentation": one.documentation if request.include_documentation else None,
        "synonyms": [
            {"name": row.name, "value": row.value, "source": int(row.source)} for row in synonyms
        ],
    }
