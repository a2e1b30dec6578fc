"""AutoGen's executor for Jupyter servers."""

from __future__ import annotations

import asyncio
import os
from urllib.parse import urlsplit

from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock
from autogen_ext.code_executors.docker_jupyter import DockerJupyterCodeExecutor
from autogen_ext.code_executors.docker_jupyter._jupyter_server import JupyterConnectionInfo

URL = os.environ["SILICA_URL"]


def test_autogen_runs_code_in_one_kernel(tmp_path):
    async def main() -> None:
        # It has no setting for a path, and takes one after the host.
        info = JupyterConnectionInfo(host=f"{urlsplit(URL).netloc}/jupyter", use_https=False, token=os.environ["SILICA_KEY"])
        async with DockerJupyterCodeExecutor(info, output_dir=tmp_path) as executor:

            async def run(code: str):
                blocks = [CodeBlock(code=code, language="python")]
                return await executor.execute_code_blocks(blocks, CancellationToken())

            assert (await run("x = 6 * 7\nprint(x)")).output.strip() == "42"
            assert (await run("print(x + 1)")).output.strip() == "43"
            failed = await run("1 / 0")
            assert failed.exit_code == 1 and "ZeroDivisionError" in failed.output
            plot = await run("import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()")
            assert any(str(file).endswith(".png") for file in plot.output_files)

    asyncio.run(main())
