"""Makes the golden namespace of this version: ``python -m tests.golden.namespaces.make``.

Once for each version, before it is released. What a version has left is never made again: later
versions are held against what it wrote, and not against what they would write in its place.
"""

import hashlib
import json
import sys

import lakelog
from tests.golden.namespaces.copies import HERE, Copy, observe_copy, run_story
from tests.golden.namespaces.life import BEGAN_MS, live, small_limits

VERSION = lakelog.__version__.partition(".dev")[0]


def made() -> tuple[dict[str, bytes], dict[str, object]]:
    """Return the objects of a new namespace, and what is served of it."""
    with small_limits():
        left = run_story(lambda: live(Copy(BEGAN_MS, {})))
    objects, now_ms = left["objects"], left["now_ms"]
    served = run_story(lambda: observe_copy(Copy(now_ms, objects)))
    sums = {key: hashlib.sha256(body).hexdigest() for key, body in objects.items()}
    about = {"version": VERSION, "now_ms": now_ms, "producer": left["producer"]}
    return objects, {**about, **served, "objects": sums}


def main() -> int:
    """Make it, unless it is there."""
    folder = HERE / VERSION
    if folder.exists():
        print(  # noqa: T201
            f"{folder} is there, and what a version has written is never written anew. "
            f"If {VERSION} was not released yet, remove the directory and make it again",
            file=sys.stderr,
        )
        return 1
    objects, told = made()
    for key, body in objects.items():
        path = folder / "objects" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    (folder / "expected.json").write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
