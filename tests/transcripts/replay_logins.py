"""Stories of logins: above a line of dashes what a client says, below it what it is told.

    users alice=wonderland bob=builder:SCRAM-SHA-256
    mechanisms SCRAM-SHA-512 PLAIN session=3600000
    0 handshake PLAIN
    10 authenticate \\0alice\\0wonderland
    20 ask                      whether another request would be answered
    ----
    NONE
    NONE alice session=3600000
    open

A nonce of the server is ``SERVER``. ``{proof alice wonderland}`` is what a client that knows a
password answers to what it was told last; ``{token alice 500}`` a token that is good until 500 ms
after the story began; ``{token - …}`` one that is not.
"""

import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

from lakelog.security import (
    CheckToken,
    FindKeys,
    Hash,
    LoginAnswer,
    SaslMachine,
    ScramMechanism,
    Token,
    Users,
    keys_of,
    prove,
    salt_password,
)

__all__ = ["FOLDER", "drive", "replay", "users_of"]

FOLDER = Path(__file__).parent / "logins"
DASHES = "----"
WALL_MS = 1_000_000
ITERATIONS = 4_096
_PROOF = re.compile(r"\{proof (\S+) (\S+)\}")
_TOKEN = re.compile(r"\{token (\S+)(?: (\d+))?\}")


def users_of(*given: str) -> Users:
    """Return users out of NAME=PASSWORD[:MECHANISM]."""
    keys: dict[str, dict[ScramMechanism, Any]] = {}
    for one in given:
        name, _, rest = one.partition("=")
        password, _, kind = rest.partition(":")
        kinds = [ScramMechanism(kind)] if kind else list(ScramMechanism)
        for mechanism in kinds:
            salt = f"salt of {name}".encode()
            salted = salt_password(mechanism, password.encode(), salt, ITERATIONS)
            keys.setdefault(name, {})[mechanism] = keys_of(mechanism, salted, salt, ITERATIONS)
    return Users(keys, b"secret")


def drive(users: Users, steps: Generator[Any, Any, LoginAnswer]) -> LoginAnswer:
    """Give a login what it asks for."""
    answer: Any = None
    while True:
        try:
            need = steps.send(answer)
        except StopIteration as end:
            told: LoginAnswer = end.value
            return told
        match need:
            case FindKeys(user, mechanism):
                answer = users.best(user) if mechanism is None else users.find(user, mechanism)
            case Hash():
                answer = salt_password(*need)
            case CheckToken(text):
                name, _, expires = bytes.fromhex(text.split(".")[1]).decode().partition(" ")
                good = Token(name, WALL_MS + int(expires or 0))
                answer = "it is not signed" if name == "-" else good


class Story:
    """A connection, and who may log in."""

    def __init__(self) -> None:
        self.users = users_of()
        self.machine = SaslMachine(("SCRAM-SHA-512",))
        self.said = self.told = b""
        self.proving: Generator[bytes, bytes, bool] | None = None

    def does(self, line: str) -> str | None:
        """Return what becomes of a line."""
        words = line.split(maxsplit=2)
        if words[0] == "users":
            self.users = users_of(*line.split()[1:])
            return None
        if words[0] == "mechanisms":
            given = line.split()[1:]
            session = [one.partition("=")[2] for one in given if one.startswith("session=")]
            names = [one for one in given if "=" not in one]
            self.machine = SaslMachine(names, int(session[0]) if session else 0)
            return None
        now_ms = int(words[0])
        if words[1] == "ask":
            return "open" if self.machine.is_open(now_ms) else "closed"
        if words[1] == "handshake":
            return _shown(self.machine.handshake(words[2], now_ms))
        data = self._data(words[2] if len(words) > 2 else "")
        steps = self.machine.authenticate(
            data, now_ms=now_ms, wall_ms=WALL_MS + now_ms, nonce="SERVER"
        )
        found = drive(self.users, steps)
        self.said, self.told = data, found.data
        return _shown(found)

    def _data(self, text: str) -> bytes:
        if proof := _PROOF.search(text):
            return text.replace(proof[0], self._proof(*proof.groups())).encode()
        if token := _TOKEN.search(text):
            body = f"{token[1]} {token[2] or ''}".encode().hex()
            text = text.replace(token[0], f"head.{body}.signature")
        return text.encode().decode("unicode_escape").encode()

    def _proof(self, user: str, password: str) -> str:
        """Return the last message of a client that said what was said, and was told this."""
        nonce = self.said.decode().rpartition("r=")[2]
        steps = prove(ScramMechanism(self.machine.mechanism), user, password, nonce)
        next(steps)
        return steps.send(self.told).decode()


def _shown(answer: LoginAnswer) -> str:
    parts = [answer.code.name, answer.user, answer.data.decode()]
    parts += [f"session={answer.session_ms}"] if answer.session_ms else []
    parts += [f"({answer.why})"] if answer.why else []
    return " ".join(filter(None, parts))


def replay(text: str) -> str:
    """Return a story with what really happens in it."""
    return "\n\n".join(map(_told, text.strip().split("\n\n"))) + "\n"


def _told(part: str) -> str:
    above, dashes, _ = part.partition(f"\n{DASHES}")
    if not dashes:
        return part
    story = Story()
    lines = [line for line in above.splitlines() if not line.startswith("#")]
    told = [said for line in lines if (said := story.does(line)) is not None]
    return "\n".join([above, DASHES, *told])


def main() -> None:
    """Write what happens into every transcript; the diff is the review."""
    for path in sorted(FOLDER.glob("*.txt")):
        path.write_text(replay(path.read_text()))


if __name__ == "__main__":
    main()
