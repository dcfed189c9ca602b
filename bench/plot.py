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
import textwrap

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
    ("operations a second", "more is better", lambda result: result["ops_per_s"]),
    ("client CPU each, µs", "less is better", client_cpu),
]
# On a telephone the picture is this wide, and text needs 14 pixels. On paper of its own it is readable in dark mode.
WIDTH, EDGE, LETTER, LINE = 400, 12, 7.6, 18
STYLE = "text{font:14px sans-serif;fill:#333}.title{font-weight:bold}.small{fill:#555}.grid{stroke:#ddd}.range{stroke:#333;stroke-width:1}"


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


def heading(title, names):
    """The title and the legend, and the y below them."""
    drawn, x, y = [], EDGE, 6
    for part in textwrap.wrap(title, int((WIDTH - 2 * EDGE) / (LETTER * 1.15))):
        y += LINE
        drawn.append(text(EDGE, y, part, "title"))
    y += LINE
    for at, name in enumerate(names):
        width = 17 + (len(name) + 2) * LETTER
        if x + width > WIDTH:
            x, y = EDGE, y + LINE
        drawn.append(f'<rect x="{x:.1f}" y="{y - 8}" width="12" height="12" fill="{COLOURS[at % len(COLOURS)]}"/>')
        drawn.append(text(x + 17, y + 3, name))
        x += width
    return drawn, y + LINE


def bars(found, names, top):
    """A group of bars for each workload, the two panels side by side. Each group has its own scale."""
    wide = (WIDTH - 3 * EDGE) / 2
    drawn = []
    for at, (panel, better, _) in enumerate(PANELS):
        for line, words in enumerate((panel, better)):
            drawn.append(text(EDGE + at * (wide + EDGE), top + 10 + line * LINE, words, "small"))
    y = top + 10 + LINE
    for (workload, param), runs in found.items():
        y += LINE + 10
        drawn.append(text(EDGE, y, WORDS.get(workload, workload + " {}").format(param)))
        y += 6
        for at, (_, _, key) in enumerate(PANELS):
            left = EDGE + at * (wide + EDGE)
            values = {name: [key(result) for result in runs[name]] for name in names if name in runs}
            scale = (wide - 6 * LETTER) / max(max(of_name) for of_name in values.values())
            for row, name in enumerate(names):
                if name in values:
                    low, mid, high = min(values[name]), statistics.median(values[name]), max(values[name])
                    middle = y + row * LINE + LINE / 2
                    colour = COLOURS[row % len(COLOURS)]
                    drawn.append(f'<rect x="{left:.1f}" y="{middle - 6:.1f}" width="{mid * scale:.1f}" height="12" fill="{colour}"/>')
                    drawn.append(rule(left + low * scale, middle, left + high * scale, middle))
                    drawn.append(text(left + high * scale + 5, middle + 5, short(mid), "small"))
        y += LINE * len(names)
    return drawn, y + EDGE


def lines(found, names, top):
    """A line for each implementation over the parameter, the two panels one below the other. Both scales begin at 0."""
    params = sorted(param for _, param in found)
    left, right, height, drawn, y = EDGE + 6 * LETTER, WIDTH - 2 * EDGE, 160, [], top
    place = {param: left + at * (right - left) / max(1, len(params) - 1) for at, param in enumerate(params)}
    what = WORDS.get(next(iter(found))[0], "{}").split("{} ")[-1]
    for panel, better, key in PANELS:
        by_name = {name: {} for name in names}
        for (_, param), runs in found.items():
            for name in names:
                if name in runs:
                    by_name[name][param] = [key(result) for result in runs[name]]
        most = rounded_up(max(max(values) for points in by_name.values() for values in points.values()))
        drawn.append(text(EDGE, y + 10, f"{panel}: {better}", "small"))
        bottom = y + LINE + 10 + height
        for part in range(5):
            at = bottom - height * part / 4
            drawn.append(rule(left, at, right, at, "grid"))
            drawn.append(text(left - 6, at + 5, short(most * part / 4), "small", "end"))
        for param in params:
            drawn.append(text(place[param], bottom + LINE, param, "small", "middle"))
        drawn.append(text(right, bottom + 2 * LINE, what, "small", "end"))
        for at, name in enumerate(names):
            colour = COLOURS[at % len(COLOURS)]
            points = sorted(by_name[name].items())
            spots = [(place[param], bottom - height * statistics.median(values) / most) for param, values in points]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
            drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
            for (x, spot), (_, values) in zip(spots, points):
                drawn.append(rule(x, bottom - height * min(values) / most, x, bottom - height * max(values) / most))
                drawn.append(f'<circle cx="{x:.1f}" cy="{spot:.1f}" r="3" fill="{colour}"/>')
        y = bottom + 3 * LINE
    return drawn, y


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
    drawn, top = heading(options.title, names)
    panels, height = (lines if options.over else bars)(found, names, top)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">'
    paper = f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
    drawn += panels
    pathlib.Path(options.out).write_text("\n".join([head, f"<style>{STYLE}</style>", paper, *drawn, "</svg>"]) + "\n")


if __name__ == "__main__":
    main()
