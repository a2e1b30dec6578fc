"""Clients that people use: jupyter_kernel_client, and nbclient and papermill through Jupyter's gateway."""

from __future__ import annotations

import os

import nbformat
import papermill
import pytest
from jupyter_kernel_client import JupyterKernelClient
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

BASE = f"{os.environ['SILICA_URL']}/jupyter"
KEY = os.environ["SILICA_KEY"]
# The gateway's client for notebooks shows no key on its WebSocket.
os.environ["JUPYTER_GATEWAY_URL"] = f"{BASE}/{os.environ['JUPYTER_KEY']}"
MANAGER = "jupyter_server.gateway.managers.GatewayKernelManager"


def test_jupyter_kernel_client():
    with JupyterKernelClient(server_url=BASE, token=KEY) as kernel:
        reply = kernel.execute("x = 6 * 7\nprint(x)\nx")
        assert reply["status"] == "ok" and reply["execution_count"] == 1
        assert [output["output_type"] for output in reply["outputs"]] == ["stream", "execute_result"]
        failed = kernel.execute("1 / 0")
        assert failed["status"] == "error"
        assert kernel.execute("print(x + 1)")["outputs"][0]["text"] == "43\n"


def notebook(*sources: str) -> nbformat.NotebookNode:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": spec})


def test_nbclient_through_the_gateway():
    book = notebook("x = 1\nprint('hi')", "x + 1", "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()")
    NotebookClient(book, kernel_name="python3", kernel_manager_class=MANAGER, timeout=60).execute()
    assert book.cells[0].outputs[0].text == "hi\n"
    assert book.cells[1].outputs[0].data["text/plain"] == "2"
    assert "image/png" in book.cells[2].outputs[0].data
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        NotebookClient(notebook("1 / 0"), kernel_name="python3", kernel_manager_class=MANAGER, timeout=60).execute()


def test_papermill_through_the_gateway(tmp_path):
    book = notebook("a = 1", "print(a * 2)")
    book.cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(book, tmp_path / "in.ipynb")
    papermill.execute_notebook(
        tmp_path / "in.ipynb", tmp_path / "out.ipynb", parameters={"a": 21}, kernel_manager_class=MANAGER,
        progress_bar=False, kernel_name="python3", language="python",
    )  # fmt: skip
    out = nbformat.read(tmp_path / "out.ipynb", 4)
    assert out.cells[-1].outputs[0].text == "42\n"


def test_gateway_of_a_jupyter_server(tmp_path):
    """What JupyterLab is: a server whose kernels are on another one."""
    import socket
    import subprocess
    import sys
    import time

    from talking import Talk, call, first

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    env = {**os.environ, "JUPYTER_GATEWAY_URL": BASE, "JUPYTER_GATEWAY_AUTH_TOKEN": KEY}
    command = [sys.executable, "-m", "jupyter_server", f"--port={port}", "--no-browser", "--allow-root"]
    command += ["--IdentityProvider.token=front", f"--ServerApp.root_dir={tmp_path}"]
    with open(tmp_path / "log", "w") as log:
        child = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    try:
        base = f"http://127.0.0.1:{port}"
        for _ in range(200):
            try:
                if call(base, "GET", "/api/status", key="front")[0] == 200:
                    break
            except OSError:
                time.sleep(0.1)
        asked = {"path": "n.ipynb", "name": "n", "type": "notebook", "kernel": {"name": "python3"}}
        status, session = call(base, "POST", "/api/sessions", asked, key="front")
        assert status == 201, session
        talk = Talk(base, session["kernel"]["id"], "front")
        assert first(talk.run("import platform\nprint(platform.node())"), "stream")["text"]
        assert first(talk.run("6 * 7"), "execute_result")["data"]["text/plain"] == "42"
        talk.close()
        assert call(base, "DELETE", f"/api/sessions/{session['id']}", key="front")[0] == 204
    finally:
        child.terminate()
        child.wait()
