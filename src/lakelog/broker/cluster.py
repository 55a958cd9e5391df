"""Which brokers there are, and which one leads a lane. Today there is one, which leads them all.

Leadership is a hint and never safety: two brokers that both believe to lead a lane stay correct,
because the store lets one of them win each key. So all that depends on it is which broker clients
are sent to, and this is the place where many brokers will come in.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence

from lakelog.wire import MetadataBroker

__all__ = ["Cluster"]


class Cluster:
    """What a broker knows of itself and the others."""

    def __init__(
        self, node_id: int, namespace: bytes, advertised: Mapping[str, tuple[str, int]]
    ) -> None:
        self.node_id = node_id
        self.cluster_id = urlsafe_b64encode(namespace).rstrip(b"=").decode()
        self._advertised = advertised

    def brokers(self, listener: str) -> Sequence[MetadataBroker]:
        """Return the brokers that are alive, as clients of a listener reach them."""
        host, port = self._advertised[listener]
        return (MetadataBroker(self.node_id, host, port),)

    def leader(self, lane: int) -> int:  # noqa: ARG002 (it leads them all)
        """Return the broker to which a lane's requests should go."""
        return self.node_id

    def coordinator(self, group: str) -> int:  # noqa: ARG002
        """Return the broker that coordinates a group."""
        return self.node_id
