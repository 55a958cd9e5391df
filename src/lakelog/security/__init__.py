"""Who a client is, as pure values and machines.

principals   whom a client has proved to be, and the names that certificates are given
"""

from lakelog.security.principals import ANONYMOUS, Principal, PrincipalRules

__all__ = ["ANONYMOUS", "Principal", "PrincipalRules"]
