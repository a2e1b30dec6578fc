"""ipywidgets: a slider that code makes, a client moves, and code reads, by the protocol of widgets."""

from __future__ import annotations

import io
import os
import sys
import tarfile
import urllib.request
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from talking import V1, Talk, call, first

URL = os.environ["SILICA_URL"]
BASE = f"{URL}/jupyter"
KEY = os.environ["SILICA_KEY"]


@pytest.fixture
def kernel():
    """A kernel whose sandbox has ipywidgets in /workspace/site."""
    kernel = call(BASE, "POST", "/api/kernels", key=KEY)[1]["id"]
    sandboxes = call(URL, "GET", "/v1/sandboxes?metadata.client=jupyter&limit=1", X_API_Key=KEY)[1]["sandboxes"]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("ipywidgets", "comm"):
            archive.add(Path(os.environ["SILICA_WIDGETS"]) / name, name)
    at = f"{URL}/v1/sandboxes/{sandboxes[0]['id']}/files/archive?path=/workspace/site"
    request = urllib.request.Request(at, data=packed.getvalue(), method="PUT", headers={"X-API-Key": KEY})
    request.add_header("Content-Type", "application/x-tar")
    urllib.request.urlopen(request, timeout=30)
    yield kernel
    call(BASE, "DELETE", f"/api/kernels/{kernel}", key=KEY)


@pytest.mark.parametrize("framing", [None, V1])
def test_slider_goes_both_ways(kernel, framing):
    talk = Talk(BASE, kernel, KEY, framing)
    made = talk.run(
        "import sys; sys.path.insert(0, '/workspace/site')\n"
        "import ipywidgets\n"
        "slider = ipywidgets.IntSlider(value=3, max=10)\n"
        "slider.observe(lambda change: print('moved to', change['new']), 'value')\n"
        "slider"
    )
    assert first(made, "execute_reply")["status"] == "ok", made
    shown = first(made, "execute_result")["data"]["application/vnd.jupyter.widget-view+json"]
    opened = {m["content"]["comm_id"]: m["content"] for m in made if m["msg_type"] == "comm_open"}
    slider = opened[shown["model_id"]]
    assert slider["target_name"] == "jupyter.widget" and slider["data"]["state"]["value"] == 3
    comms = first(talk.ask("comm_info_request", {"target_name": "jupyter.widget"}), "comm_info_reply")["comms"]
    assert shown["model_id"] in comms

    # The client moves it: code hears of it, and the client gets an echo.
    update = {"method": "update", "state": {"value": 7}, "buffer_paths": []}
    moved = talk.ask("comm_msg", {"comm_id": shown["model_id"], "data": update})
    assert first(moved, "stream")["text"] == "moved to 7\n"
    assert first(talk.run("slider.value"), "execute_result")["data"]["text/plain"] == "7"

    # Code moves it: the client hears of it.
    told = first(talk.run("slider.value = 9"), "comm_msg")
    assert told["comm_id"] == shown["model_id"] and told["data"]["state"]["value"] == 9

    closed = first(talk.run("slider.close()"), "comm_close")
    assert closed["comm_id"] == shown["model_id"]
    talk.close()


def test_flood_of_comms_is_bounded(kernel):
    talk = Talk(BASE, kernel, KEY)
    code = (
        "import sys; sys.path.insert(0, '/workspace/site')\nimport comm\n"
        "c = comm.create_comm(target_name='flood')\n"
        "for i in range(5000): c.send({'text': 'x' * 1000})\n"
    )
    seen = talk.run(code)
    assert first(seen, "execute_reply")["status"] == "ok"
    assert sum(m["msg_type"] == "comm_msg" for m in seen) == 5000
    large = talk.run("c.send({'text': 'x' * 100_000_000})")
    assert first(large, "execute_reply")["ename"] in ("ValueError", "MemoryError")
    talk.close()
