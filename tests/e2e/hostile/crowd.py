"""The honest clients: five producers and five consumers of confluent-kafka, in a process.

    python -m tests.e2e.hostile.crowd BOOTSTRAP FILE

    FILE, a line for each thing that happens:
        sent  MOMENT
        acked MOMENT MS      a record that was sent then was acknowledged so much later
        seen  MOMENT MS      likewise, and a consumer had it
        error MOMENT 0 TEXT  a client was told of an error, lost a connection, or had to rebalance

A moment is one of the monotonic clock, which all processes of a machine share. What a record meets
counts for the moment at which it was sent, so that a broker that answers nothing for a while cannot
look as if nothing had been asked of it.
"""

import json
import struct
import sys
import threading
import time
from typing import TextIO

from confluent_kafka import Consumer, KafkaError, Message, Producer

TOPIC, GROUP, CLIENTS = "honest", "honest", 5
RATE = 40
"""Records of each producer in a second."""
TICK_S = 0.002
VALUE_BYTES = 100
STATISTICS_MS = 100
"""How often clients say how many connections they have lost."""

_MOMENT = struct.Struct(">d")


class Teller:
    """Writes down what happens; many threads tell."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def sent(self, moment: float) -> None:
        self._tell(f"sent {moment:.6f}")

    def arrived(self, what: str, message: Message) -> None:
        value = message.value()
        assert value is not None
        (moment,) = _MOMENT.unpack_from(value)
        self._tell(f"{what} {moment:.6f} {(time.monotonic() - moment) * 1000:.3f}")

    def error(self, text: str) -> None:
        self._tell(f"error {time.monotonic():.6f} 0 {text}")

    def _tell(self, line: str) -> None:
        with self._lock:
            self._out.write(line + "\n")
            self._out.flush()


class Losses:
    """Tells of connections that a client has lost, by the client's own statistics."""

    def __init__(self, teller: Teller, who: str) -> None:
        self._teller, self._who, self._lost = teller, who, 0

    def __call__(self, text: str) -> None:
        lost = sum(one.get("disconnects", 0) for one in json.loads(text)["brokers"].values())
        for _ in range(lost - self._lost):
            self._teller.error(f"{self._who} lost a connection")
        self._lost = lost


def _settings(teller: Teller, who: str, bootstrap: str) -> dict[str, object]:
    return {
        "bootstrap.servers": bootstrap,
        "client.id": who,
        "log_level": 0,
        "statistics.interval.ms": STATISTICS_MS,
        "stats_cb": Losses(teller, who),
        "error_cb": lambda error: teller.error(f"{who}: {error}"),
    }


def produce(teller: Teller, bootstrap: str, ended: threading.Event) -> None:
    """Send at a steady rate, by all producers in turn."""

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            teller.arrived("acked", message)
        else:
            teller.error(f"not delivered: {error}")

    producers = [
        Producer(
            {
                **_settings(teller, f"producer-{one}", bootstrap),
                "enable.idempotence": True,
                "linger.ms": 0,
            }
        )
        for one in range(CLIENTS)
    ]
    filler = bytes(VALUE_BYTES - _MOMENT.size)
    begun, sent = time.monotonic(), 0
    while not ended.wait(TICK_S):
        while (now := time.monotonic()) > begun + sent / (RATE * CLIENTS):
            which = sent % CLIENTS
            producers[which].produce(
                TOPIC, _MOMENT.pack(now) + filler, partition=which, on_delivery=delivered
            )
            teller.sent(now)
            sent += 1
        for one in producers:
            one.poll(0)
    for one in producers:
        one.flush(30)


def consume(teller: Teller, bootstrap: str, number: int, ended: threading.Event) -> None:
    """Read as a member of the group, and commit."""
    settings = _settings(teller, f"consumer-{number}", bootstrap)
    settings |= {"group.id": GROUP, "auto.offset.reset": "latest"}
    settings |= {"auto.commit.interval.ms": 1000, "session.timeout.ms": 30_000}
    consumer = Consumer(settings)
    consumer.subscribe([TOPIC], on_revoke=lambda *_: teller.error(f"consumer-{number} rebalanced"))
    while not ended.is_set():
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            teller.arrived("seen", message)
    consumer.close()


def main() -> None:
    bootstrap, path = sys.argv[1:]
    ended = threading.Event()
    with open(path, "w", encoding="utf-8") as out:  # noqa: PTH123 (a name that was given)
        teller = Teller(out)
        threads = [threading.Thread(target=produce, args=(teller, bootstrap, ended))]
        threads += [
            threading.Thread(target=consume, args=(teller, bootstrap, one, ended))
            for one in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        sys.stdin.read()  # Until the other side closes it, or is no more.
        ended.set()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
