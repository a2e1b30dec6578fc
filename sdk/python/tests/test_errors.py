"""The exception for each error answer, and its message."""

from __future__ import annotations

import json

import pytest

import silica
from silica.core.call import Answer
from silica.core.http import Settings
from silica.core.problem import error_of


def answer(status: int, **problem: object) -> Answer:
    return Answer(status, {"x-request-id": "req_2"}, json.dumps(problem).encode())


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "bad_request", silica.BadRequest),
        (400, "bad_path", silica.BadRequest),
        (401, "unauthorized", silica.Unauthorized),
        (403, "wrong_origin", silica.Forbidden),
        (404, "sandbox_not_found", silica.NotFound),
        (409, "conflict", silica.Conflict),
        (409, "cell_ended", silica.Conflict),
        (409, "sandbox_ended", silica.SandboxEnded),
        (413, "too_large", silica.TooLarge),
        (416, "bad_range", silica.BadRequest),
        (422, "refused", silica.Refused),
        (422, "policy_blocked", silica.PolicyBlocked),
        (422, "not_a_file", silica.NotAFile),
        (422, "not_a_directory", silica.NotADirectory),
        (422, "cannot_start", silica.CannotStart),
        (429, "queue_full", silica.RateLimited),
        (500, "internal", silica.ServerFault),
        (503, "shutting_down", silica.Unavailable),
        (507, "disk_full", silica.DiskFull),
        (418, "of_the_future", silica.BadRequest),
        (599, "of_the_future", silica.ServerFault),
        (302, "of_the_future", silica.BadAnswer),
    ],
)
def test_the_class_of_an_error(status: int, code: str, kind: type[silica.SilicaError]) -> None:
    error = error_of(answer(status, code=code, detail="words", request_id="req_1"))
    assert type(error) is kind
    assert (error.status, error.code, error.detail) == (status, code, "words")
    assert error.request_id == "req_1"
    assert str(error) == f"words ({code}, req_1)"


def test_an_error_that_is_not_ours() -> None:
    error = error_of(Answer(502, {}, b"<html>Bad Gateway</html>" + b"x" * 1000))
    assert isinstance(error, silica.Unavailable)
    assert error.detail.startswith("the server answered 502: <html>Bad Gateway</html>")
    assert len(error.detail) < 300
    assert error.code == "unavailable"
    assert error_of(Answer(500, {}, b"[]")).detail == "the server answered 500: []"
    assert error_of(Answer(500, {"x-request-id": "req_9"}, b"")).request_id == "req_9"


def test_what_a_policy_found() -> None:
    found = {"rule": "r", "action": "block", "line": 2, "column": 1, "why": "w", "instead": None}
    error = error_of(answer(422, code="policy_blocked", detail="words", findings=[found]))
    assert isinstance(error, silica.PolicyBlocked)
    assert [str(finding) for finding in error.findings] == ["line 2: w"]


@pytest.mark.parametrize(
    ("header", "seconds"), [("3", 3.0), ("0.5", 0.5), ("-1", None), ("nan", None), ("soon", None)]
)
def test_when_to_come_back(header: str, seconds: float | None) -> None:
    error = error_of(Answer(429, {"retry-after": header}, b""))
    assert isinstance(error, silica.RateLimited)
    assert error.retry_after == seconds


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SILICA_URL", raising=False)
    monkeypatch.delenv("SILICA_KEY", raising=False)
    assert Settings.of(None, None, 1, 0).url == "http://127.0.0.1:8585"
    monkeypatch.setenv("SILICA_URL", "https://host/")
    monkeypatch.setenv("SILICA_KEY", "silica_secret")
    settings = Settings.of(None, None, 1, 0)
    assert (settings.url, settings.key) == ("https://host", "silica_secret")
    assert "secret" not in repr(settings)
    assert "secret" not in repr(silica.Client())
    assert Settings.of("http://other", "k", 1, 0).key == "k"
    for wrong in ("host:80", "ftp://host", "http://"):
        with pytest.raises(ValueError, match="not the URL of a server"):
            Settings.of(wrong, None, 1, 0)
