"""AlterConfigs (key 33, versions 0 to 2) and IncrementalAlterConfigs (key 44, versions 0 to 1).

Behaviour
    Topics only: the older of the two replaces all configs of a topic, the newer one changes some.
    A broker is configured when it starts.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kio.schema.alter_configs.v2.request import AlterConfigsRequest
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest

from lakelog.broker.allowance import SPENT, is_spent
from lakelog.broker.api.describe_configs import BROKER, TOPIC
from lakelog.broker.codes import read_code
from lakelog.broker.services import Call, Services
from lakelog.broker.turns import in_turns
from lakelog.catalog import Change, Operation, alter_configs, check_configs
from lakelog.errors import InvalidInputError, LakelogError
from lakelog.wire import Fields

__all__ = ["incremental_alter_configs", "replace_configs"]

Alter = Callable[[Mapping[str, str]], dict[str, str]]


async def replace_configs(services: Services, call: Call, request: AlterConfigsRequest) -> Fields:
    """Give resources the configs that are named, and no others."""

    def replaced(resource: Any) -> Alter:
        configs = {str(one.name): one.value for one in resource.configs}
        return lambda _: check_configs(configs)

    return await _each(services, request, replaced)


async def incremental_alter_configs(
    services: Services, call: Call, request: IncrementalAlterConfigsRequest
) -> Fields:
    """Change some configs of resources."""

    def changed(resource: Any) -> Alter:
        changes = [_change(one) for one in resource.configs]
        return lambda now: alter_configs(now, changes)

    return await _each(services, request, changed)


def _change(one: Any) -> Change:
    operations = list(Operation)
    if not 0 <= one.config_operation < len(operations):
        raise InvalidInputError(f"operation {one.config_operation} of {one.name}: use 0 to 3")
    return Change(str(one.name), operations[one.config_operation], one.value)


async def _each(services: Services, request: Any, altering: Callable[[Any], Alter]) -> Fields:
    named = Counter((one.resource_type, str(one.resource_name)) for one in request.resources)
    rows: list[Fields] = []
    async for resource in in_turns(request.resources):
        if named[resource.resource_type, str(resource.resource_name)] > 1:
            code, message = ErrorCode.invalid_request, "Each resource must appear at most once."
        elif is_spent():
            code, message = ErrorCode.policy_violation, SPENT
        else:
            code, message = await _alter(
                services, resource, altering, validate_only=request.validate_only
            )
        rows.append(
            {
                "error_code": code,
                "error_message": message[:512] or None,
                "resource_type": resource.resource_type,
                "resource_name": resource.resource_name,
            }
        )
    return {"responses": rows}


async def _alter(
    services: Services, resource: Any, altering: Callable[[Any], Alter], *, validate_only: bool
) -> tuple[ErrorCode, str]:
    names = [str(one.name) for one in resource.configs]
    if len(set(names)) < len(names):
        return ErrorCode.invalid_request, "Error due to duplicate config keys"
    if resource.resource_type == BROKER:
        return ErrorCode.invalid_request, _static(names)
    if resource.resource_type != TOPIC:
        return ErrorCode.invalid_request, "change topics (2): nothing else has configs that change"
    try:
        topic = await services.catalog.topic(str(resource.resource_name))
        if topic is None:
            return ErrorCode.unknown_topic_or_partition, _unknown(resource)
        alter = altering(resource)
        if validate_only:
            alter(topic.configs)
        else:
            await services.catalog.configure(topic, alter)
    except InvalidInputError as error:
        return ErrorCode.invalid_config, str(error)
    except LakelogError as error:
        return read_code(error), str(error)
    return ErrorCode.none, ""


def _static(names: Sequence[str]) -> str:
    return (
        f"Cannot update these configs dynamically: {', '.join(names)}:"
        " start the broker with other options"
    )


def _unknown(resource: Any) -> str:
    return f"The topic '{resource.resource_name}' does not exist."
