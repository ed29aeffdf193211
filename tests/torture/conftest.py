from collections.abc import Iterator

import pytest

from tests.helpers.runs import Ground, prepared_ground


@pytest.fixture(scope="session")
def ground() -> Iterator[Ground]:
    with prepared_ground() as made:
        yield made
