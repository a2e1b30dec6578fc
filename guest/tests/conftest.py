"""Makes the guest and the host driver importable for the tests."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from host import Host  # noqa: E402


@pytest.fixture(params=["plain", "ipython"])
def host(request):
    """A kernel of its own for the test, once per gear."""
    with Host(request.param) as kernel:
        yield kernel


@pytest.fixture(scope="module", params=["plain", "ipython"])
def shared(request):
    """A kernel shared by the cells of a table."""
    with Host(request.param) as kernel:
        yield kernel
