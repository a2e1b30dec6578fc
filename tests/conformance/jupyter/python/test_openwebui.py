"""The client of Open WebUI, unchanged out of its wheel, with two of its imports replaced."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
import types

import pytest

URL = f"{os.environ['SILICA_URL']}/jupyter"
KEY = os.environ["SILICA_KEY"]


@pytest.fixture(scope="module")
def client():
    names = ("open_webui", "open_webui.env", "open_webui.utils", "open_webui.utils.json_codec")
    for name in names:
        sys.modules[name] = types.ModuleType(name)
    sys.modules["open_webui.env"].AIOHTTP_CLIENT_ALLOW_REDIRECTS = True
    sys.modules["open_webui.utils.json_codec"].JSONCodec = json
    spec = importlib.util.spec_from_file_location("code_interpreter", os.environ["OPENWEBUI_CLIENT"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"


# aiohttp keeps no cookies for an address that is a number.
@pytest.mark.parametrize(
    "how",
    [{"base_url": URL, "token": KEY}, {"base_url": URL.replace("127.0.0.1", "localhost"), "password": KEY}],
    ids=["token", "password"],
)
def test_open_webui_runs_code(client, how):
    def run(code: str) -> dict:
        return asyncio.run(client.execute_code_jupyter(code=code, timeout=30, **how))

    assert run("print(6 * 7)") == {"stdout": "42", "stderr": "", "result": ""}
    assert run("6 * 7")["result"] == "42"
    assert "ZeroDivisionError" in run("1 / 0")["stderr"]
    assert run(PLOT)["result"].startswith("data:image/png;base64,")
