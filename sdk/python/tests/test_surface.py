"""The blocking and the asynchronous classes have equal signatures, and all names a docstring."""

from __future__ import annotations

import inspect

import pytest

import silica

PAIRS = [
    (silica.Client, silica.AsyncClient),
    (silica.Sandbox, silica.AsyncSandbox),
    (silica.Files, silica.AsyncFiles),
    (silica.Commands, silica.AsyncCommands),
    (silica.CommandHandle, silica.AsyncCommandHandle),
    (silica.Kernels, silica.AsyncKernels),
    (silica.Kernel, silica.AsyncKernel),
    (silica.Cell, silica.AsyncCell),
    (silica.Network, silica.AsyncNetwork),
    (silica.Ports, silica.AsyncPorts),
    (silica.Secrets, silica.AsyncSecrets),
]


def methods(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(member)
        for name, member in inspect.getmembers(kind, callable)
        if not name.startswith("_")
    }


def arguments(signature: inspect.Signature) -> list[tuple[str, object, object, str]]:
    """Names, kinds, defaults and types of parameters; types without the prefix `Async`."""
    return [
        (one.name, one.kind, one.default, str(one.annotation).replace("Async", ""))
        for one in signature.parameters.values()
    ]


@pytest.mark.parametrize(("blocking", "asynchronous"), PAIRS)
def test_both_offer_the_same(blocking: type, asynchronous: type) -> None:
    ours, theirs = methods(blocking), methods(asynchronous)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert arguments(ours[name]) == arguments(theirs[name]), name


def test_the_one_off_runs_offer_the_same() -> None:
    client = arguments(inspect.signature(silica.Client.run))[1:]
    for function in (silica.run, silica.run_async):
        assert arguments(inspect.signature(function)) == client


@pytest.mark.parametrize("kind", [kind for pair in PAIRS for kind in pair])
def test_everything_is_described(kind: type) -> None:
    assert kind.__doc__
    for name in methods(kind):
        assert getattr(kind, name).__doc__, name


def test_all_that_is_named_is_there() -> None:
    assert all(hasattr(silica, name) for name in silica.__all__)
    assert silica.__all__ == sorted(silica.__all__)
