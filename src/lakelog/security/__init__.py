"""Who a client is and what it may do, as pure values and machines.

principals   whom a client has proved to be, and the names that certificates are given
policies     what each process may do to a namespace's objects, for S3's IAM
acls         who may do what, as values; and filters, by which they are selected
rules        verdicts by the ACLs of one version
certificates when one expires, and its subject as Kafka writes it
protocols    what a listener asks of its clients
sasl         the logins of a connection; exchanges: what they ask for
scram, plain, oauthbearer
             the mechanisms
users        what is kept of passwords, and decoys
quotas       how much of a broker a client may use, and who shares that
buckets      so much in a second
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
from lakelog.security.buckets import BUCKETS_MAX, Bucket, Buckets
from lakelog.security.certificates import expiry_ms, subject_name
from lakelog.security.exchanges import CheckToken, FindKeys, Hash, Need, Token
from lakelog.security.oauthbearer import ASYMMETRIC, TOKEN_CHARS_MAX
from lakelog.security.policies import ROLES, Role, bucket_policy
from lakelog.security.principals import ANONYMOUS, Principal, PrincipalRules
from lakelog.security.protocols import ClientAuth, SecurityProtocol, is_loopback
from lakelog.security.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    ENTITIES_MAX,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    STORE_REQUEST_RATE,
    Alteration,
    Component,
    Entity,
    FoundQuota,
    Match,
    Quotas,
    address_name,
    alter_quotas,
    describe_quotas,
    entity_of,
)
from lakelog.security.rules import IMPLYING_DESCRIBE, AclRules
from lakelog.security.sasl import MECHANISMS, LoginAnswer, LoginCode, SaslMachine
from lakelog.security.scram import (
    ITERATIONS,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramKeys,
    ScramMechanism,
    keys_of,
    prove,
    salt_password,
)
from lakelog.security.users import USERS_MAX, Users, check_password, check_user_name

__all__ = [
    "ACLS_MAX",
    "ANONYMOUS",
    "ASYMMETRIC",
    "BUCKETS_MAX",
    "CLUSTER_NAME",
    "CONNECTION_CREATION_RATE",
    "CONSUMER_BYTE_RATE",
    "CONTROLLER_MUTATION_RATE",
    "ENTITIES_MAX",
    "IMPLYING_DESCRIBE",
    "ITERATIONS",
    "ITERATIONS_MAX",
    "ITERATIONS_MIN",
    "MECHANISMS",
    "PRODUCER_BYTE_RATE",
    "REQUEST_PERCENTAGE",
    "ROLES",
    "STORE_REQUEST_RATE",
    "SUPPORTED_OPERATIONS",
    "TOKEN_CHARS_MAX",
    "USERS_MAX",
    "Acl",
    "AclFilter",
    "AclRules",
    "Alteration",
    "Bucket",
    "Buckets",
    "CheckToken",
    "ClientAuth",
    "Component",
    "Entity",
    "FindKeys",
    "FoundQuota",
    "Hash",
    "LoginAnswer",
    "LoginCode",
    "Match",
    "Need",
    "Operation",
    "PatternType",
    "Permission",
    "Principal",
    "PrincipalRules",
    "Quotas",
    "ResourceType",
    "Role",
    "SaslMachine",
    "ScramKeys",
    "ScramMechanism",
    "SecurityProtocol",
    "Token",
    "Users",
    "address_name",
    "alter_quotas",
    "bucket_policy",
    "check_acl",
    "check_password",
    "check_user_name",
    "describe_quotas",
    "entity_of",
    "expiry_ms",
    "is_loopback",
    "keys_of",
    "prove",
    "salt_password",
    "subject_name",
]
