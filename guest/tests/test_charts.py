"""Chart data: every shape in full, the axes that change it, and what must not break a figure."""

import pytest
from host import strict

CHART = "application/vnd.silica.chart+json"
START = "import matplotlib.pyplot as plt, numpy as np, pandas as pd, datetime as dt\nfig, ax = plt.subplots()\n"
# The positions of automatic ticks differ between versions of matplotlib.
TICKS = "ax.set_xticks([1, 2]); ax.set_yticks([3, 4])\n"
TICKED = {
    "x_ticks": [1, 2], "x_tick_labels": ["1", "2"], "x_scale": "linear",
    "y_ticks": [3, 4], "y_tick_labels": ["3", "4"], "y_scale": "linear",
}  # fmt: skip
UNLABELLED = {"x_label": None, "y_label": None, "x_unit": None, "y_unit": None}
BARE = {"title": None, **UNLABELLED}


def chart(host, code: str):
    """Runs a cell that leaves one figure; returns its chart data, or None."""
    events, done = host.run(f"{START}{code}\nplt.show()")
    assert done["status"] == "ok", events
    assert [kind for kind, _ in events] == ["display"], events
    assert events[0][1]["image/png"].startswith(b"\x89PNG")
    return strict(events[0][1][CHART]) if CHART in events[0][1] else None


def bar(label, group, value):
    return {"label": label, "group": group, "value": value}


def box(label, low, first, median, third, high, outliers):
    return {
        "label": label, "min": low, "first_quartile": first, "median": median, "third_quartile": third, "max": high,
        "outliers": outliers,
    }  # fmt: skip


SHAPES = {
    "line": (
        TICKS + "ax.plot([1, 2], [3, 4], label='up'); ax.plot([1, 2], [4, 4]); ax.axhline(3)\n"
        "ax.set(title='T', xlabel='Time (s)', ylabel='Force [N]')",
        {
            "type": "line", "title": "T", "x_label": "Time (s)", "y_label": "Force [N]", "x_unit": "s", "y_unit": "N",
            **TICKED,
            "elements": [{"label": "up", "points": [[1, 3], [2, 4]]}, {"label": "Line 1", "points": [[1, 4], [2, 4]]}],
        },
    ),
    "line with gaps": (
        TICKS + "ax.plot([1, 2, 3], [np.nan, 4, np.inf])",
        {"type": "line", **BARE, **TICKED, "elements": [{"label": "Line 0", "points": [[1, None], [2, 4.0], [3, None]]}]},
    ),
    "error bars": (
        TICKS + "ax.errorbar([1, 2], [3, 4], yerr=0.5, capsize=3, label='e')",
        {"type": "line", **BARE, **TICKED, "elements": [{"label": "e", "points": [[1, 3], [2, 4]]}]},
    ),
    "band": (
        TICKS + "ax.plot([1, 2], [3, 4]); ax.fill_between([1, 2], [2, 3], [4, 5])",
        {"type": "line", **BARE, **TICKED, "elements": [{"label": "Line 0", "points": [[1, 3], [2, 4]]}]},
    ),
    "scatter": (
        TICKS + "ax.scatter([1, 2], [3.5, 4], label='first'); ax.scatter([1, np.nan], [4, 4]); ax.legend()",
        {
            "type": "scatter", **BARE, **TICKED,
            "elements": [
                {"label": "first", "points": [[1.0, 3.5], [2.0, 4.0]]},
                {"label": "Scatter 1", "points": [[1.0, 4.0]]},
            ],
        },
    ),
    "scatter with a colour bar": (
        TICKS + "fig.colorbar(ax.scatter([1, 2], [3, 4], c=[5, 6]))",
        {"type": "scatter", **BARE, **TICKED, "elements": [{"label": "Scatter 0", "points": [[1.0, 3.0], [2.0, 4.0]]}]},
    ),
    "bar": (
        "ax.bar(['a', 'b'], [5, 5], label='Sold'); ax.set(title='B', xlabel='Who', ylabel='How many (pcs)')",
        {
            "type": "bar", "title": "B", "x_label": "Who", "y_label": "How many (pcs)", "x_unit": None, "y_unit": "pcs",
            "elements": [bar("a", "Sold", 5.0), bar("b", "Sold", 5.0)],
        },
    ),
    "bar grouped": (
        "at = np.arange(2)\nax.bar(at - 0.2, [1, 2], 0.4, label='x'); ax.bar(at + 0.2, [3, -4], 0.4)\n"
        "ax.set_xticks(at, ['p', 'q']); ax.axhline(0)",
        {"type": "bar", **BARE, "elements": [
            bar("p", "x", 1.0), bar("q", "x", 2.0), bar("p", "Group 1", 3.0), bar("q", "Group 1", -4.0),
        ]},
    ),
    "bar grouped by pandas": (
        "pd.DataFrame({'u': [1, 2], 'v': [3, np.nan]}, index=['p', 'q']).plot.bar(ax=ax)",
        {"type": "bar", **BARE, "elements": [bar("p", "u", 1.0), bar("q", "u", 2.0), bar("p", "v", 3.0), bar("q", "v", 0.0)]},
    ),
    "bar horizontal": (
        "ax.barh(['a', 'b'], [1, 2], xerr=[0.1, 0.2]); ax.set(xlabel='Value [kg]', ylabel='Who')",
        {
            "type": "bar", "title": None, "x_label": "Who", "y_label": "Value [kg]", "x_unit": None, "y_unit": "kg",
            "elements": [bar("a", "Group 0", 1.0), bar("b", "Group 0", 2.0)],
        },
    ),
    "bar at numbers": (
        "ax.bar([1999, 2000.5], [1, 2])",
        {"type": "bar", **BARE, "elements": [bar("1999", "Group 0", 1.0), bar("2000.5", "Group 0", 2.0)]},
    ),
    "bar at dates": (
        "ax.bar([dt.date(2024, 1, 1), dt.date(2024, 1, 2)], [1, 2])",
        {"type": "bar", **BARE, "elements": [bar("2024-01-01T00:00:00", "Group 0", 1.0), bar("2024-01-02T00:00:00", "Group 0", 2.0)]},
    ),
    "histogram": (
        "ax.hist([1, 2, 3, 3], bins=2)",
        {"type": "bar", **BARE, "elements": [bar("1.5", "Group 0", 1.0), bar("2.5", "Group 0", 3.0)]},
    ),
    "pie": (
        "ax.pie([90, 10], labels=['No', 'Yes'], autopct='%1.1f%%', startangle=90); ax.set_title('P'); ax.set_xlabel('x')",
        {"type": "pie", "title": "P", "elements": [
            {"label": "No", "angle": 324.0, "radius": 1.0}, {"label": "Yes", "angle": 36.0, "radius": 1.0},
        ]},
    ),
    "pie without labels": (
        "ax.pie([1, 2], radius=2)",
        {"type": "pie", "title": None, "elements": [
            {"label": "", "angle": 120.0, "radius": 2.0}, {"label": "", "angle": 240.0, "radius": 2.0},
        ]},
    ),
    "box": (
        "ax.boxplot([[1, 2, 3, 4, 20, -9], [2, 2, 2, 2]], showmeans=True); ax.set_xticks([1, 2], ['p', 'q'])\n"
        "ax.set(title='B', xlabel='Class', ylabel='Score (pt)')",
        {
            "type": "box_and_whisker", "title": "B", "x_label": "Class", "y_label": "Score (pt)", "x_unit": None, "y_unit": "pt",
            "elements": [box("p", 1.0, 1.25, 2.5, 3.75, 4.0, [-9.0, 20.0]), box("q", 2.0, 2.0, 2.0, 2.0, 2.0, [])],
        },
    ),
    "box filled, notched, lying": (
        "ax.boxplot([[1, 2, 3, 4, 20]], patch_artist=True, notch=True, orientation='horizontal')\n"
        "ax.set(xlabel='Score', ylabel='Class')",
        {
            "type": "box_and_whisker", "title": None, "x_label": "Class", "y_label": "Score", "x_unit": None, "y_unit": None,
            "elements": [box("1", 1.0, 2.0, 3.0, 4.0, 4.0, [20.0])],
        },
    ),
    "box of nothing": (
        "ax.boxplot([[1, 2, 3], []])",
        {"type": "box_and_whisker", **BARE, "elements": [box("1", 1.0, 1.5, 2.0, 2.5, 3.0, [])]},
    ),
    "a rectangle is no box": (
        TICKS + "ax.plot([1, 2, 2, 1, 1], [3, 3, 4, 4, 3])",
        {"type": "line", **BARE, **TICKED, "elements": [{"label": "Line 0", "points": [[1, 3], [2, 3], [2, 4], [1, 4], [1, 3]]}]},
    ),
    "superchart": (
        "plt.close(fig)\nfig, (a, b) = plt.subplots(1, 2); fig.suptitle('S')\n"
        "a.pie([1], labels=['all']); b.imshow([[1]]); b.set_title('I', loc='left')",
        {"type": "superchart", "title": "S", "elements": [
            {"type": "pie", "title": None, "elements": [{"label": "all", "angle": 360.0, "radius": 1.0}]},
            {"type": "unknown", "title": "I", "elements": []},
        ]},
    ),
    "unknown": (
        "ax.add_artist(plt.Circle((0, 0), 1)); ax.set_title('Round')",
        {"type": "unknown", "title": "Round", "elements": []},
    ),
    "mixed": ("ax.plot([1, 2, 3]); ax.scatter([1], [2])", {"type": "unknown", "title": None, "elements": []}),
    "three dimensions": (
        "plt.close(fig)\nax = plt.figure().add_subplot(projection='3d'); ax.plot([1, 2], [1, 2], [1, 2])",
        {"type": "unknown", "title": None, "elements": []},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_shape(shared, name):
    code, expected = SHAPES[name]
    assert chart(shared, code) == expected


AXES = {
    "log": ("ax.loglog([1, 10], [1, 10])", "log", 1, 1.0),
    "symlog": ("ax.plot([1, 2]); ax.set_xscale('symlog')", "symlog", 0.0, 0.0),
    "date": ("ax.plot([dt.date(2024, 1, 1), dt.date(2024, 1, 5)], [1, 2])", "datetime", "2024-01-01", "2024-01-01T00:00:00"),
    "numpy dates": (
        "ax.plot(np.array(['2024-01-01T06', '2024-01-05T00'], 'M8[ns]'), [1, 2])",
        "datetime", "2024-01-01T06:00:00", "2024-01-02T00:00:00",
    ),
    "scattered dates": (
        "ax.scatter([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 5)], [1, 2])",
        "datetime", "2024-01-01T00:00:00", "2024-01-01T00:00:00",
    ),
    "zoned dates": (
        "ax.scatter(pd.date_range('2024-01-01', periods=2, tz='Asia/Tokyo'), [1, 2])",
        "datetime", "2024-01-01T00:00:00+09:00", "2024-01-01T00:00:00+09:00",
    ),
    "pandas periods": (
        "pd.Series([1, 2], index=pd.period_range('2024-01', periods=2, freq='M')).plot(ax=ax)",
        "datetime", "2024-01-01T00:00:00", "2024-01-01T00:00:00",
    ),
    "pandas business days": (
        "pd.Series([1, 2, 3], index=pd.bdate_range('2024-01-05', periods=3)).plot(ax=ax)",
        "datetime", "2024-01-05T00:00:00", "2024-01-05T00:00:00",
    ),
    "categories": ("ax.plot(['a', 'b'], [1, 2])", "categorical", "a", 0),
    "scattered categories": ("ax.scatter(['a', 'b'], [1, 2])", "categorical", "a", 0),
    "named ticks": ("ax.plot([0, 1], [1, 2]); ax.set_xticks([0, 1], ['low', 'high'])", "categorical", 0, 0),
    "numbered ticks": ("ax.plot([0, 1], [1, 2]); ax.set_xticks([0, 1])", "linear", 0, 0),
    "no ticks": ("ax.plot([0, 1], [1, 2]); ax.set_xticks([])", "linear", 0, None),
}  # fmt: skip


@pytest.mark.parametrize("name", AXES)
def test_axis(shared, name):
    code, scale, first, tick = AXES[name]
    found = chart(shared, code)
    assert (found["x_scale"], found["elements"][0]["points"][0][0]) == (scale, first)
    assert len(found["x_ticks"]) == len(found["x_tick_labels"])
    if tick is not None and scale not in ("log", "symlog"):
        assert tick in found["x_ticks"], found["x_ticks"]


def test_blank_figure_has_no_chart(shared):
    assert chart(shared, "") is None


def test_chart_of_a_value(shared):
    events, _ = shared.run(START + "ax.pie([1], labels=['é\\u2028'])\nfig")
    assert [kind for kind, _ in events] == ["main"]
    assert list(events[0][1]) == ["text/plain", "image/png", CHART]
    assert strict(events[0][1][CHART])["elements"][0]["label"] == "é\u2028"


def test_bounds_are_marked(shared):
    found = chart(shared, "ax.plot(range(8000), label='x' * 600); ax.plot(range(8000)); ax.plot(range(5))")
    assert [len(each["points"]) for each in found["elements"]] == [8000, 2000, 0] and found["truncated"] is True
    assert len(found["elements"][0]["label"]) == 500
    found = chart(shared, "ax.bar(range(1500), range(1500))")
    assert len(found["elements"]) == 1000 and found["truncated"] is True
    found = chart(shared, "plt.close(fig)\nfig, grid = plt.subplots(3, 6, figsize=(2, 1)); grid[0][0].plot([1])")
    assert len(found["elements"]) == 16 and found["truncated"] is True
    found = chart(shared, "ax.plot(range(300), range(300)); ax.set_xticks(range(300))")
    assert len(found["x_ticks"]) == len(found["x_tick_labels"]) == 100 and "truncated" not in found


@pytest.mark.parametrize(
    "code",
    [
        "class E(plt.Line2D): ...\nax.add_line(E([1], [2]))\nE.get_label = lambda self: 1/0",
        "class E(plt.Line2D): ...\nax.add_line(E([1], [2]))\nE.get_xdata = lambda self, orig=True: 1/0",
        "ax.bar([1], [2]); ax.containers[0].patches.append(None)",
        "ax.plot([1]); type(ax).has_data = property(lambda self: 1/0)",
    ],
)
def test_what_cannot_be_read_is_still_shown(host, code):
    assert chart(host, code) is None
    assert host.run("1")[1]["status"] == "ok"
