"""Who a client is and what it may do, as pure values and machines.

principals   whom a client has proved to be, and the names that certificates are given
policies     what each process may do to a namespace's objects, for S3's IAM
acls         who may do what, as values; and filters, by which they are selected
rules        verdicts by the ACLs of one version
certificates when one expires, and its subject as Kafka writes it
protocols    what a listener asks of its clients
"""

from lakelog.security.acls import (
    ACLS_MAX,
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    check_acl,
)
from lakelog.security.certificates import expiry_ms, subject_name
from lakelog.security.policies import ROLES, Role, bucket_policy
from lakelog.security.principals import ANONYMOUS, Principal, PrincipalRules
from lakelog.security.protocols import ClientAuth, SecurityProtocol
from lakelog.security.rules import IMPLYING_DESCRIBE, AclRules

__all__ = [
    "ACLS_MAX",
    "ANONYMOUS",
    "CLUSTER_NAME",
    "IMPLYING_DESCRIBE",
    "ROLES",
    "SUPPORTED_OPERATIONS",
    "Acl",
    "AclFilter",
    "AclRules",
    "ClientAuth",
    "Operation",
    "PatternType",
    "Permission",
    "Principal",
    "PrincipalRules",
    "ResourceType",
    "Role",
    "SecurityProtocol",
    "bucket_policy",
    "check_acl",
    "expiry_ms",
    "subject_name",
]
