"""What a sandbox may reach, and a key it uses and never sees. Needs SILICA_URL, SILICA_KEY and network.mode_max = "list"."""

from silica import Client, Sandbox

# Looks one name up that the rules do not have, and shows what stands in the place of the key.
CODE = """
import os, socket
print("inside:", os.environ["API_KEY"][:17])
try:
    socket.getaddrinfo("elsewhere.example", 443)
except OSError as error:
    print("refused inside:", error)
"""

with Client() as client:
    client.secrets.put("example", "the-real-value", hosts=["api.example.com"], env="API_KEY")
    network = {"allow": [{"host": "docs.example.com", "methods": ["GET"]}], "secrets": ["example"]}
    with Sandbox.create(network=network, client=client) as sandbox:
        for url in ("https://docs.example.com/", "https://api.example.com/v1", "https://elsewhere.example/"):
            verdict = sandbox.network.check(url, method="GET")
            print(url, "may be reached" if verdict else f"is refused: {verdict.reason}")
        cell = sandbox.run_code(CODE)
        print(cell.stdout, end="")
        for denied in cell.network.denied:
            print("refused:", denied)
    client.secrets.delete("example")
