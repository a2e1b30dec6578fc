"""Many at once, and whole programs as people write them."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor

from e2b_code_interpreter import Sandbox

COUNT = 20

SALES = "month,city,units,price\n" + "".join(
    f"2026-{month:02},{city},{units * month},{price}\n"
    for month in range(1, 7)
    for city, units, price in (("Brno", 10, 2.5), ("Oslo", 7, 4.0), ("Porto", 3, 1.5))
)


def test_twenty_sandboxes_at_once(api):
    def work(number: int) -> tuple[str, str, str]:
        with api.create(timeout=120, metadata={"n": str(number)}) as one:
            one.run_code(f"secret = {number}")
            one.files.write("mine", str(number))
            seen = one.run_code("open('mine').read(), secret").text
            return one.sandbox_id, seen, one.commands.run("cat mine").stdout

    with ThreadPoolExecutor(COUNT) as pool:
        done = list(pool.map(work, range(COUNT)))
    assert len({sandbox for sandbox, _, _ in done}) == COUNT
    assert [seen for _, seen, _ in done] == [f"('{number}', {number})" for number in range(COUNT)]
    assert [said for _, _, said in done] == [str(number) for number in range(COUNT)]


def test_many_runs_in_one_sandbox_take_turns(sandbox):
    sandbox.run_code("count = 0")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: sandbox.run_code("count += 1"), range(40)))
    assert sandbox.run_code("count").text == "40"


def test_example_analysis_of_a_csv():
    """Uploads a table, has it analysed step by step, and reads the answers."""
    with Sandbox.create() as sbx:
        dataset = sbx.files.write("sales.csv", SALES)
        loaded = sbx.run_code(f"import pandas as pd\ndf = pd.read_csv('{dataset.path}')\ndf.shape")
        assert loaded.text == "(18, 4)"
        grouped = sbx.run_code(
            "df['revenue'] = df.units * df.price\n"
            "df.groupby('city', as_index=False).revenue.sum().sort_values('revenue', ascending=False)"
        )
        assert grouped.results[0].data == {"index": [1, 0, 2], "city": ["Oslo", "Brno", "Porto"],
                                           "revenue": [588.0, 525.0, 94.5]}
        wrong = sbx.run_code("df['profit'].sum()")
        assert wrong.error.name == "KeyError" and "profit" in wrong.error.traceback
        assert "".join(sbx.run_code("print(df.describe())").logs.stdout).count("\n") == 9


def test_example_chart(tmp_path):
    """Draws a chart, keeps the picture, and reads the numbers back out of it."""
    code = """
import matplotlib.pyplot as plt
plt.figure(figsize=(6, 4))
plt.bar(["Author A", "Author B"], [100, 200])
plt.xlabel("Authors")
plt.ylabel("Books sold (pcs)")
plt.title("Book Sales by Authors")
plt.tight_layout()
plt.show()
"""
    with Sandbox.create() as sbx:
        result = sbx.run_code(code).results[0]
        picture = tmp_path / "chart.png"
        picture.write_bytes(base64.b64decode(result.png))
        assert picture.read_bytes()[1:4] == b"PNG"
        chart = result.chart
        assert (chart.title, chart.x_label, chart.y_unit) == ("Book Sales by Authors", "Authors", "pcs")
        assert {bar.label: bar.value for bar in chart.elements} == {"Author A": 100, "Author B": 200}


def test_example_upload_and_download(tmp_path):
    """Carries a file in and what was made of it out again."""
    source = tmp_path / "numbers.txt"
    source.write_text("\n".join(map(str, range(1, 101))))
    with Sandbox.create() as sbx:
        with open(source, "rb") as file:
            sbx.files.write("/home/user/numbers.txt", file)
        sbx.run_code("total = sum(map(int, open('/home/user/numbers.txt')))\nopen('/tmp/sum', 'w').write(str(total))")
        result = tmp_path / "sum"
        result.write_text(sbx.files.read("/tmp/sum"))
        assert result.read_text() == "5050"
        assert "sum" in [entry.name for entry in sbx.files.list("/tmp")]


def test_example_streaming():
    """Shows what a long run says while it runs."""
    lines, results = [], []
    with Sandbox.create() as sbx:
        sbx.run_code(
            "for n in range(5):\n    print('step', n, flush=True)\n'finished'",
            on_stdout=lambda output: lines.append(output.line),
            on_result=lambda result: results.append(result.text),
            on_error=lambda error: lines.append(error.value),
        )
    assert "".join(lines) == "".join(f"step {n}\n" for n in range(5))
    assert results == ["finished"]


def test_example_background_server(eventually):
    """Starts a server inside, talks to it from inside, and stops it."""
    with Sandbox.create() as sbx:
        sbx.files.write("www/index.html", "<h1>hello</h1>")
        server = sbx.commands.run("python3 -m http.server 8000 --directory www", background=True, timeout=0)
        fetch = (
            "import urllib.request\n"
            "try: print(urllib.request.urlopen('http://localhost:8000/index.html', timeout=5).read().decode())\n"
            "except OSError: print('not yet')"
        )
        assert eventually(lambda: sbx.run_code(fetch).logs.stdout == ["<h1>hello</h1>\n"])
        server.kill()
        assert eventually(lambda: sbx.run_code(fetch).logs.stdout == ["not yet\n"])
