"""AlterConfigs (key 33, versions 0 to 2) and IncrementalAlterConfigs (key 44, versions 0 to 1).

Behaviour
    Topics only: the older of the two replaces all configs of a topic, the newer one changes some.
    A broker is configured when it starts.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kio.schema.alter_configs.v2.request import AlterConfigsRequest
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest

from lakelog.broker.api.describe_configs import BROKER, TOPIC, denied
from lakelog.broker.request_items import change_each
from lakelog.broker.services import Call, Services
from lakelog.catalog import Change, Operation, alter_configs, check_configs
from lakelog.errors import InvalidInputError
from lakelog.security import Operation as AclOperation
from lakelog.wire import Fields

__all__ = ["incremental_alter_configs", "replace_configs"]

Alter = Callable[[Mapping[str, str]], dict[str, str]]


async def replace_configs(services: Services, call: Call, request: AlterConfigsRequest) -> Fields:
    """Give resources the configs that are named, and no others."""

    def replaced(resource: Any) -> Alter:
        configs = {str(one.name): one.value for one in resource.configs}
        return lambda _: check_configs(configs)

    return await _each(services, call, request, replaced)


async def incremental_alter_configs(
    services: Services, call: Call, request: IncrementalAlterConfigsRequest
) -> Fields:
    """Change some configs of resources."""

    def changed(resource: Any) -> Alter:
        changes = [_change(one) for one in resource.configs]
        return lambda now: alter_configs(now, changes)

    return await _each(services, call, request, changed)


def _change(one: Any) -> Change:
    operations = list(Operation)
    if not 0 <= one.config_operation < len(operations):
        raise InvalidInputError(f"operation {one.config_operation} of {one.name}: use 0 to 3")
    return Change(str(one.name), operations[one.config_operation], one.value)


async def _each(
    services: Services, call: Call, request: Any, altering: Callable[[Any], Alter]
) -> Fields:
    rows = await change_each(
        request.resources,
        lambda resource: (resource.resource_type, str(resource.resource_name)),
        partial(_alter, services, call, altering, validate_only=request.validate_only),
        _row,
        named_twice="Each resource must appear at most once.",
        codes=((InvalidInputError, ErrorCode.invalid_config),),
    )
    return {"responses": rows}


async def _alter(
    services: Services,
    call: Call,
    altering: Callable[[Any], Alter],
    resource: Any,
    *,
    validate_only: bool,
) -> Fields:
    type_, name = int(resource.resource_type), str(resource.resource_name)
    refused = denied(call, AclOperation.ALTER_CONFIGS, type_, name)
    if refused is not None:
        return _row(resource, *refused)
    names = [str(one.name) for one in resource.configs]
    what = ""
    if len(set(names)) < len(names):
        what = "Error due to duplicate config keys"
    elif resource.resource_type == BROKER:
        what = (
            f"Cannot update these configs dynamically: {', '.join(names)}:"
            " start the broker with other options"
        )
    elif resource.resource_type != TOPIC:
        what = "change topics (2): nothing else has configs that change"
    if what:
        return _row(resource, ErrorCode.invalid_request, what)
    topic = await services.catalog.topic(str(resource.resource_name))
    if topic is None:
        what = f"The topic '{resource.resource_name}' does not exist."
        return _row(resource, ErrorCode.unknown_topic_or_partition, what)
    alter = altering(resource)
    if validate_only:
        alter(topic.configs)
    else:
        await services.catalog.configure(topic, alter)
    return _row(resource)


def _row(resource: Any, code: ErrorCode = ErrorCode.none, message: str = "") -> Fields:
    return {
        "error_code": code,
        "error_message": message[:512] or None,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }
