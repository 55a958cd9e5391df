"""The table of behaviours: a name, a sentence that is true where it passes, and what is done."""

from collections.abc import Mapping

from tests.e2e.compat.behaviours.groups import GROUPS
from tests.e2e.compat.behaviours.producing import PRODUCING
from tests.e2e.compat.behaviours.reading import READING
from tests.e2e.compat.behaviours.topics import TOPICS
from tests.e2e.compat.stage import Behaviour

__all__ = ["BEHAVIOURS", "SECTIONS", "Behaviour"]


SECTIONS: Mapping[str, Mapping[str, Behaviour]] = {
    "Producing": PRODUCING,
    "Topics and the cluster": TOPICS,
    "Consuming": READING,
    "Groups": GROUPS,
}

BEHAVIOURS: Mapping[str, Behaviour] = {
    name: behaviour for rows in SECTIONS.values() for name, behaviour in rows.items()
}
