#!/usr/bin/env python3
"""Draws the lines that compare.py has saved, as an SVG with two panels: operations a second, and client CPU an operation.

    plot.py RESULTS.jsonl OUT.svg [WORKLOAD:PARAM ...]      bars: for each workload, one for each implementation
    plot.py RESULTS.jsonl OUT.svg --over WORKLOAD           lines: for each implementation, over the parameter

    --only a,b      these implementations, in this order
    --title TEXT    says what was measured, and on what

A bar or a point is the median of the rounds. A thin line goes from the lowest to the highest round.

Not here: measuring, and tables (compare.py).
"""
import argparse
import html
import json
import pathlib
import statistics

from compare import client_cpu

COLOURS = ["#1f6fb2", "#d9822b", "#3d9a50", "#b0483f", "#7d5ba6", "#8a8f98", "#c2a500", "#5aa9a9"]
WORDS = {
    "lock_uncontended": "lock and release, {} at once",
    "lock_contended": "one lock, {} sessions",
    "lock_shared_session": "one lock, {} tasks of a session",
    "get_pipelined": "reads, {} in flight",
    "create_delete": "create and delete, {} at once",
    "crowd": "one lock, {} waiters",
}
PANELS = [
    ("operations a second: more is better", lambda result: result["ops_per_s"]),
    ("client CPU an operation, µs: less is better", client_cpu),
]
WIDTH, PANEL, LEFT, TOP = 960, 360, 210, 74
STYLE = "text{font:12px sans-serif;fill:#333}.title{font-weight:bold;font-size:15px}.small{font-size:11px;fill:#666}.grid{stroke:#ddd}.range{stroke:#333;stroke-width:1}"


def load(path, only):
    """The good results: (workload, param) to name to lines."""
    found = {}
    for line in pathlib.Path(path).read_text().splitlines():
        result = json.loads(line)
        if "skip" not in result and (not only or result["name"] in only):
            runs = found.setdefault((result["workload"], result["param"]), {})
            runs.setdefault(result["name"], []).append(result)
    return found


def text(x, y, words, kind="", anchor="start"):
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(str(words))}</text>'


def rule(x1, y1, x2, y2, kind="range"):
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def short(value):
    return f"{value / 1000:.1f}k" if value >= 10_000 else f"{value:,.0f}"


def rounded_up(value):
    """The next number whose quarters are easy to read."""
    unit = 10 ** (len(str(int(value))) - 1)
    return next(unit * digits for digits in (1, 1.2, 2, 4, 6, 8, 10) if unit * digits >= value)


def legend(names):
    step = (WIDTH - 40) / max(len(names), 4)
    for at, name in enumerate(names):
        yield f'<rect x="{20 + at * step:.1f}" y="36" width="12" height="12" fill="{COLOURS[at % len(COLOURS)]}"/>'
        yield text(37 + at * step, 46, name)


def bars(found, names, panel, key, left):
    """One panel: a group of bars for each workload. Each group has its own scale."""
    yield text(left, TOP - 8, panel, "small")
    y = TOP
    for runs in found.values():
        values = {name: [key(result) for result in runs[name]] for name in names if name in runs}
        most = max(max(of_name) for of_name in values.values())
        for at, name in enumerate(names):
            if name in values:
                low, mid, high = min(values[name]), statistics.median(values[name]), max(values[name])
                scale = (PANEL - 60) / most
                colour = COLOURS[at % len(COLOURS)]
                yield f'<rect x="{left}" y="{y}" width="{mid * scale:.1f}" height="11" fill="{colour}"/>'
                yield rule(left + low * scale, y + 5.5, left + high * scale, y + 5.5)
                yield text(left + high * scale + 5, y + 10, short(mid), "small")
            y += 14
        y += 12


def lines(found, names, panel, key, left, height):
    """One panel: a line for each implementation over the parameter, both on logarithmic or linear scales that begin at 0."""
    params = sorted(param for _, param in found)
    place = {param: left + at * (PANEL - 60) / max(1, len(params) - 1) for at, param in enumerate(params)}
    by_name = {name: {} for name in names}
    for (_, param), runs in found.items():
        for name in names:
            if name in runs:
                by_name[name][param] = [key(result) for result in runs[name]]
    most = rounded_up(max(max(values) for points in by_name.values() for values in points.values()))
    bottom = TOP + height
    yield text(left, TOP - 8, panel, "small")
    for part in range(5):
        y = bottom - height * part / 4
        yield rule(left, y, left + PANEL - 60, y, "grid")
        yield text(left - 6, y + 4, short(most * part / 4), "small", "end")
    yield text(left + PANEL - 38, bottom + 16, WORDS.get(next(iter(found))[0], "{}").split("{} ")[-1], "small")
    for param in params:
        yield text(place[param], bottom + 16, param, "small", "middle")
    for at, name in enumerate(names):
        colour = COLOURS[at % len(COLOURS)]
        points = sorted(by_name[name].items())
        spots = [(place[param], bottom - height * statistics.median(values) / most) for param, values in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for (x, y), (_, values) in zip(spots, points):
            yield rule(x, bottom - height * min(values) / most, x, bottom - height * max(values) / most)
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results")
    parser.add_argument("out")
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD:PARAM")
    parser.add_argument("--over", metavar="WORKLOAD")
    parser.add_argument("--only", type=lambda names: names.split(","), metavar="NAME,...")
    parser.add_argument("--title", default="")
    options = parser.parse_args()
    found = load(options.results, options.only)
    if options.over:
        found = {key: runs for key, runs in found.items() if key[0] == options.over}
    elif options.workloads:
        keys = [(workload, int(param)) for workload, param in (spec.split(":") for spec in options.workloads)]
        found = {key: found[key] for key in keys if key in found}
    if not found:
        parser.error(f"{options.results} has no results of these workloads")
    names = options.only or list(dict.fromkeys(name for runs in found.values() for name in runs))
    drawn = [text(20, 22, options.title, "title"), *legend(names)]
    if options.over:
        height = TOP + 200 + 30
        for at, (panel, key) in enumerate(PANELS):
            drawn += lines(found, names, panel, key, 70 + at * (WIDTH // 2), 200)
    else:
        height = TOP + len(found) * (14 * len(names) + 12)
        for at, (workload, param) in enumerate(found):
            middle = TOP + at * (14 * len(names) + 12) + 7 * len(names) + 4
            drawn.append(text(20, middle, WORDS.get(workload, workload + " {}").format(param)))
        for at, (panel, key) in enumerate(PANELS):
            drawn += bars(found, names, panel, key, LEFT + at * (PANEL + 20))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">'
    paper = f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
    pathlib.Path(options.out).write_text("\n".join([head, f"<style>{STYLE}</style>", paper, *drawn, "</svg>"]) + "\n")


if __name__ == "__main__":
    main()
