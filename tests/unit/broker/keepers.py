"""Keepers that misbehave. Each is a process of its own, and imports little."""

import os
import signal
from multiprocessing.connection import Connection

from lakelog.broker import maintenance
from lakelog.broker.maintenance import MaintenanceSettings
from lakelog.store import StoreSpec

__all__ = ["failing", "greedy", "sleeper"]


def sleeper(spec: StoreSpec, settings: MaintenanceSettings, pipe: Connection) -> None:
    """Hang, as a store may."""
    pipe.send_bytes(b"{}")
    signal.pause()


def failing(spec: StoreSpec, settings: MaintenanceSettings, pipe: Connection) -> None:
    os._exit(3)


def greedy(spec: StoreSpec, settings: MaintenanceSettings, pipe: Connection) -> None:
    """Take four times as much as is allowed."""
    maintenance._limit_memory(settings.memory_bytes)
    bytearray(settings.memory_bytes // 4)
    try:
        bytearray(settings.memory_bytes * 4)
    except MemoryError:
        os._exit(maintenance.EXIT_MEMORY)
