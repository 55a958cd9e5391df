"""One broker for most of these tests."""

from collections.abc import Iterator

import pytest

from tests.e2e.secure.secured import Secured, running_secured


@pytest.fixture(scope="package")
def secured() -> Iterator[Secured]:
    """A broker with listeners for certificates and for logins."""
    with running_secured() as made:
        yield made
