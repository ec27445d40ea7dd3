"""Taking a right away from everybody who comes without a name."""

from __future__ import annotations

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""What makes Apache Kafka look at rights, and allow what none is about."""


def deny_write(bootstrap_servers: str, topic: str) -> None:
    """Everything but to write a topic is allowed then."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    made = admin.create_acls([_binding(topic, AclOperation.WRITE, AclPermissionType.DENY), _binding(topic)])
    for one in made.values():
        one.result(30)


def _binding(
    topic: str,
    operation: AclOperation = AclOperation.ALL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation, permission
    )
