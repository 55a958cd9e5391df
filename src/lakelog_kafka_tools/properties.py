"""Java's properties files, as far as people write them by hand.

    # a comment, also with !
    name=value          or name:value, or name value
    long=one, \\
         line           a backslash joins lines, and the blanks before the rest go
    a\\:b=\\u00e4       escapes

The last line of a name counts.
"""

from lakelog.errors import InvalidInputError

__all__ = ["read_properties"]

PROPERTIES_BYTES_MAX = 1 << 20
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"


def read_properties(text: str) -> dict[str, str]:
    """Return the names and values of a properties file.

    Raises:
        InvalidInputError: it is too large, or an escape is none.
    """
    if len(text) > PROPERTIES_BYTES_MAX:
        raise InvalidInputError(f"more than {PROPERTIES_BYTES_MAX} characters: is it the file?")
    found: dict[str, str] = {}
    for line in _joined(text):
        name, value = _split(line)
        found[_plain(name)] = _plain(value)
    return found


def _joined(text: str) -> list[str]:
    lines: list[str] = []
    open_ = False
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.lstrip(_BLANKS)
        if not open_ and (not line or line[0] in "#!"):
            continue
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        part = line[:-1] if goes_on else line
        if open_:
            lines[-1] += part
        else:
            lines.append(part)
        open_ = goes_on
    return lines


def _split(line: str) -> tuple[str, str]:
    """Return a name and a value: they part at the first =, : or blank that is not escaped."""
    at = 0
    while at < len(line) and line[at] not in "=:" + _BLANKS:
        at += 2 if line[at] == "\\" else 1
    rest = line[at:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:at], rest


def _plain(text: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\" or at + 1 == len(text):
            out.append(text[at])
            at += 1
        elif text[at + 1] != "u":
            out.append(_ESCAPES.get(text[at + 1], text[at + 1]))
            at += 2
        else:
            try:
                out.append(chr(int(text[at + 2 : at + 6], 16)))
            except ValueError:
                what = f"{text[at : at + 6]!r} is no character: use \\\\u and four hex digits"
                raise InvalidInputError(what) from None
            at += 6
    return "".join(out)
