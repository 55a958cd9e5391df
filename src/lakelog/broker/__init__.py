"""The broker: asyncio lives here.

lanes   the driver of a lane: requests in, flushes out
"""

from lakelog.broker.lanes import LaneWriter

__all__ = ["LaneWriter"]
