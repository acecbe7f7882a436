"""Arguments: bootstrap servers, and a name. Creates, describes and deletes rules and credentials."""

# mypy: disable-error-code="attr-defined,no-untyped-call,arg-type,index"

import sys
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

servers, name = sys.argv[1:3]
admin = AdminClient({"bootstrap.servers": servers})


def outcome(future: Future[Any]) -> Any:
    try:
        return future.result(timeout=20)
    except KafkaException as error:
        return error.args[0].name()


def main() -> None:
    principal = f"User:{name}"
    rules = [
        AclBinding(kind, "x", ResourcePatternType.PREFIXED, principal, "*", operation, AclPermissionType.ALLOW)
        for kind, operation in ((ResourceType.TOPIC, AclOperation.READ), (ResourceType.GROUP, AclOperation.DESCRIBE))
    ]
    rules.append(AclBinding("broker", "kafka-cluster", "literal", principal, "10.0.0.1", "idempotent_write", "deny"))
    every = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, principal, None, AclOperation.ANY, AclPermissionType.ANY)
    print("created:", [outcome(future) for future in admin.create_acls(rules).values()])
    found = outcome(admin.describe_acls(every))
    print("described:", [str(rule).replace(name, "name") for rule in sorted(found)], sorted(found) == sorted(rules))
    for future in admin.delete_acls([every]).values():
        print("deleted:", len(outcome(future)))
    print("left:", outcome(admin.describe_acls(every)))
    try:
        AclBinding(ResourceType.ANY, "t", ResourcePatternType.LITERAL, "User:u", "*", AclOperation.READ, AclPermissionType.ALLOW)
    except ValueError as error:
        print("refused:", type(error).__name__)

    user = name + "-user"
    added = UserScramCredentialUpsertion(user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"secret")
    print("added:", [outcome(future) for future in admin.alter_user_scram_credentials([added]).values()])
    described = outcome(admin.describe_user_scram_credentials([user])[user])
    print("found:", described.user == user, [(info.mechanism.name, info.iterations) for info in described.scram_credential_infos])
    print("among all:", user in outcome(admin.describe_user_scram_credentials()))
    gone = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256)
    print("removed:", [outcome(future) for future in admin.alter_user_scram_credentials([gone]).values()])
    print("left:", outcome(admin.describe_user_scram_credentials([user])[user]))


main()
