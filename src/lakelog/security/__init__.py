"""Who a client is, as pure values and machines.

principals   whom a client has proved to be, and the names that certificates are given
policies     what each process may do to a namespace's objects, for S3's IAM
"""

from lakelog.security.policies import ROLES, Role, bucket_policy
from lakelog.security.principals import ANONYMOUS, Principal, PrincipalRules

__all__ = ["ANONYMOUS", "ROLES", "Principal", "PrincipalRules", "Role", "bucket_policy"]
