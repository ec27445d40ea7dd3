"""ApiVersions v0-4: which APIs and versions there are, and which protocol features are on.

A version that is not known is answered in v0 with UNSUPPORTED_VERSION and the version range of ApiVersions itself,
so that the client can ask again (KIP-511). v3 adds the features; a client takes them as valid only if their epoch is not negative.
Supported features whose lowest level is 0, as all here, are left out before v4. A feature at level 0 is not on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from oncelog.broker.apis import ServedApi
from oncelog.broker.features import FinalizedFeatures
from oncelog.broker.request import NO_THROTTLE, Request
from oncelog.wire import ErrorCode, construct, message_class, message_module

API_KEY = 18
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""The syntax of a client's name and version (KIP-511)."""
# Kafka 4 refuses Produce 0 to 2 but lists them, because old librdkafka reads from them which codecs there are (KAFKA-18659).
PRODUCE_KEY = 0


def handle(request: Request, apis: Mapping[int, ServedApi], features: FinalizedFeatures) -> Any:
    if request.version >= 3 and not (
        SOFTWARE.fullmatch(request.body.client_software_name)
        and SOFTWARE.fullmatch(request.body.client_software_version)
    ):
        return request.answer(
            error_code=ErrorCode.invalid_request,
            api_keys=(),
            supported_features=(),
            finalized_features_epoch=-1,
            finalized_features=(),
        )
    return request.answer(
        error_code=ErrorCode.none,
        api_keys=tuple(_api(request.types, api.key, api.minimum, api.maximum) for api in apis.values()),
        supported_features=_supported(request.types, features) if request.version >= 4 else (),
        finalized_features_epoch=features.epoch,
        finalized_features=_finalized(request.types, features) if request.version >= 3 else (),
    )


def unsupported_version(apis: Mapping[int, ServedApi]) -> Any:
    types = message_module(API_KEY, 0, "response")
    own = apis[API_KEY]
    return construct(
        message_class(API_KEY, 0, "response"),
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.unsupported_version,
        api_keys=(_api(types, API_KEY, own.minimum, own.maximum),),
    )


def _api(types: Any, key: int, minimum: int, maximum: int) -> Any:
    return types.ApiVersion(api_key=key, min_version=0 if key == PRODUCE_KEY else minimum, max_version=maximum)


def _supported(types: Any, features: FinalizedFeatures) -> tuple[Any, ...]:
    return tuple(
        types.SupportedFeatureKey(name=name, min_version=0, max_version=level)
        for name, level in features.highest.items()
    )


def _finalized(types: Any, features: FinalizedFeatures) -> tuple[Any, ...]:
    return tuple(
        types.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in features.levels.items()
        if level > 0
    )
