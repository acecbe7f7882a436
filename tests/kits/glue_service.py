"""AWS Glue Schema Registry in memory, with the methods of botocore's client that levada calls. moto answers the same (test_glue.py)."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from uuid import UUID

URL = "https://glue.eu-west-1.amazonaws.com"


class ClientError(Exception):
    """An error of AWS, as botocore raises it."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"An error occurred ({code}): {message}")
        self.response = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}


class GlueService:
    """One registry. statuses: the statuses of the next version that is registered, one for each answer; the last one stays.

    fails: errors that the next calls of an operation raise. calls: the operations that were called, in order.
    """

    def __init__(self) -> None:
        self.meta = SimpleNamespace(endpoint_url=URL)
        self.calls: list[str] = []
        self.created: list[dict[str, Any]] = []
        self.fails: dict[str, list[Exception]] = {}
        self.statuses: list[str] = []
        self._schemas: dict[str, dict[str, str]] = {}
        self._versions: dict[str, tuple[str, str, list[str]]] = {}
        self._ids = (str(UUID(int=number)) for number in range(1, 1 << 16))

    def get_schema_version(self, *, SchemaVersionId: str) -> dict[str, Any]:
        self._begin("get_schema_version")
        if SchemaVersionId not in self._versions:
            raise ClientError("EntityNotFoundException", "Schema version is not found.")
        text, data_format, statuses = self._versions[SchemaVersionId]
        return {"SchemaVersionId": SchemaVersionId, "SchemaDefinition": text, "DataFormat": data_format, "Status": _next(statuses)}

    def get_schema_by_definition(self, *, SchemaId: dict[str, str], SchemaDefinition: str) -> dict[str, Any]:
        self._begin("get_schema_by_definition")
        version_id = self._definitions(SchemaId).get(SchemaDefinition)
        if version_id is None:
            raise ClientError("EntityNotFoundException", "Schema version is not found.")
        return {"SchemaVersionId": version_id, "Status": _next(self._versions[version_id][2])}

    def register_schema_version(self, *, SchemaId: dict[str, str], SchemaDefinition: str) -> dict[str, Any]:
        self._begin("register_schema_version")
        definitions = self._definitions(SchemaId)
        if SchemaDefinition not in definitions:
            data_format = next(self._versions[version_id][1] for version_id in definitions.values())
            definitions[SchemaDefinition] = self._add(SchemaDefinition, data_format)
        version_id = definitions[SchemaDefinition]
        return {"SchemaVersionId": version_id, "Status": _next(self._versions[version_id][2])}

    def create_schema(
        self, *, RegistryId: dict[str, str], SchemaName: str, DataFormat: str, Compatibility: str, SchemaDefinition: str
    ) -> dict[str, Any]:
        self._begin("create_schema")
        if SchemaName in self._schemas:
            raise ClientError("AlreadyExistsException", "Schema already exists.")
        if DataFormat != "PROTOBUF":
            try:
                json.loads(SchemaDefinition)
            except ValueError:
                raise ClientError("InvalidInputException", "Schema definition of the data format is invalid.") from None
        version_id = self._add(SchemaDefinition, DataFormat)
        self._schemas[SchemaName] = {SchemaDefinition: version_id}
        self.created.append({"name": SchemaName, "registry": RegistryId["RegistryName"], "compatibility": Compatibility})
        return {"SchemaVersionId": version_id, "SchemaVersionStatus": _next(self._versions[version_id][2])}

    def _begin(self, operation: str) -> None:
        self.calls.append(operation)
        if fails := self.fails.get(operation):
            raise fails.pop(0)

    def _definitions(self, schema_id: dict[str, str]) -> dict[str, str]:
        if schema_id["SchemaName"] not in self._schemas:
            raise ClientError("EntityNotFoundException", "Schema is not found.")
        return self._schemas[schema_id["SchemaName"]]

    def _add(self, text: str, data_format: str) -> str:
        version_id = next(self._ids)
        self._versions[version_id] = text, data_format, self.statuses or ["AVAILABLE"]
        self.statuses = []
        return version_id


def _next(statuses: list[str]) -> str:
    return statuses.pop(0) if len(statuses) > 1 else statuses[0]
