#!/usr/bin/env python3
"""Runs benchmark programs in turn against one server, and prints the medians as tables.

    compare.py HOST:PORT WORKLOAD:PARAM[,PARAM...] ... [--only a,b] [--rounds 3] [--secs 3] [--json FILE]
    compare.py --report FILE [--baseline NAME]          print the tables of saved lines again
    .. --summary                                        also print one table of medians, a column for each implementation;
                                                        ≈ marks those that the rounds do not tell from the baseline

An implementation is one line of peers/implementations.conf. Runs are interleaved, a b c a b c, so that other load on the
machine affects all programs. When a program prints @start and @end on stderr, this script measures the server's CPU time
between the two. The key "skip" in a program's line, or its exit status 3, means "not offered".

Not here: building the programs (peers/build.sh), the meaning of the figures (README.md).
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import threading
import time

PEERS = pathlib.Path(__file__).resolve().parent / "peers"
TICK = os.sysconf("SC_CLK_TCK")
# Seconds that a program may take in addition to its window. The script kills a program that takes longer.
PATIENCE = 60


def implementations(path):
    """Reads the NAME = COMMAND lines, and replaces the variables."""
    build = os.environ.get("BENCH_BUILD", str(PEERS / ".build"))
    variables = {"ZOOKEEPER_JARS": build + "/jars", "KAZOO_PYTHON": "python3"}
    variables |= os.environ | {"BUILD": build, "PEERS": str(PEERS)}
    found = {}
    for line in pathlib.Path(path).read_text().splitlines():
        line = line.split("#", 1)[0].strip()
        if line:
            name, command = (part.strip() for part in line.split("=", 1))
            command = re.sub(r"\$(\w+)", lambda match: variables.get(match[1], match[0]), command)
            found[name] = shlex.split(command)
    return found


def listener(server):
    """Finds the process that listens on this port; None if it is not visible on this machine."""
    port = int(server.rsplit(":", 1)[1])
    sockets = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:  # 0A: listening
                sockets.add(f"socket:[{fields[9]}]")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if any(os.readlink(f"/proc/{pid}/fd/{fd}") in sockets for fd in os.listdir(f"/proc/{pid}/fd")):
                return int(pid)
        except OSError:
            pass
    return None


def cpu_of(pid):
    """CPU seconds of a process so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def cpu_of_machine():
    """CPU seconds of all processes so far."""
    with open("/proc/stat") as stat:
        fields = [int(field) for field in stat.readline().split()[1:9]]
    idle, waiting, stolen = fields[3], fields[4], fields[7]
    return (sum(fields) - idle - waiting - stolen) / TICK


def wait_for_quiet(seconds, share):
    """Waits until all processes together use at most this share of a core, or until the seconds are over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = cpu_of_machine(), time.monotonic()
        time.sleep(0.3)
        if (cpu_of_machine() - before[0]) / (time.monotonic() - before[1]) <= share:
            return


def run(command, server, workload, seconds, param, pid):
    """Does one run. Returns the figures of the program, and the CPU time of the server and of other processes."""
    snapshots, messages = {}, []

    def snapshot():
        return time.monotonic(), cpu_of(pid) if pid else 0.0, cpu_of_machine()

    def listen(stderr):
        for line in map(str.strip, stderr):
            if line in ("@start", "@end"):
                snapshots[line] = snapshot()
            elif line:
                messages.append(line)

    start = snapshot()
    arguments = [server, workload, str(seconds), str(param)]
    try:
        process = subprocess.Popen(command + arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError:
        return {"skip": "not built"}
    listening = threading.Thread(target=listen, args=[process.stderr], daemon=True)
    listening.start()
    killer = threading.Timer(seconds + PATIENCE, process.kill)
    killer.start()
    output = process.stdout.read()
    status = process.wait()
    killer.cancel()
    listening.join(2)

    start, end = snapshots.get("@start", start), snapshots.get("@end") or snapshot()
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines and status == 127:  # env(1) found no such program
        return {"skip": "not built"}
    if not lines:
        return {"skip": f"failed: status {status}: {' | '.join(messages[-2:])[:160]}"}
    result = json.loads(lines[-1])
    if "skip" in result:
        return result
    if abs(result["secs"] - seconds) > 0.1 * seconds:
        return {"skip": f"failed: measured {result['secs']:.3f} s instead of {seconds:g}"}
    window, server_cpu, all_cpu = (after - before for before, after in zip(start, end))
    others = all_cpu - server_cpu - result["cpu_user_s"] - result["cpu_sys_s"]
    return result | {"window_s": window, "server_cpu_s": server_cpu, "other_cpu_s": max(0.0, others)}


def failed(result):
    return result.get("skip", "").startswith("failed")


def others_share(result):
    return result["other_cpu_s"] / result["window_s"]


def number(value, digits=0):
    return f"{value:,.{digits}f}"


def median(results, key):
    return statistics.median(key(result) for result in results)


def client_cpu(result):
    """Microseconds per operation."""
    return (result["cpu_user_s"] + result["cpu_sys_s"]) * 1e6 / max(1, result["ops"])


def server_cpu(result):
    """Microseconds per operation."""
    return result["server_cpu_s"] * 1e6 / max(1, result["ops"])


def row(results, base):
    rates = [result["ops_per_s"] for result in results]
    cells = [
        number(statistics.median(rates)),
        f"{number(min(rates))}–{number(max(rates))}",
        number(statistics.median(rates) / base, 2) if base else "–",
        number(median(results, lambda result: result["p50_us"])),
        number(median(results, lambda result: result["p99_us"])),
        number(median(results, client_cpu), 1),
        number(min(map(client_cpu, results)), 1),
        number(median(results, server_cpu), 1),
        number(median(results, lambda result: result["max_rss_kb"] / 1024), 1),
    ]
    notes = []
    if violations := sum(result.get("violations", 0) for result in results):
        notes.append(f"**{violations} violations of the exclusion**")
    if (share := max(map(others_share, results))) > 0.15:
        notes.append(f"other processes used {share:.0%} of a core")
    return cells + ["; ".join(notes)]


def idle_row(results, _):
    return [
        number(median(results, lambda result: result["ops_per_s"])),
        number(median(results, lambda result: result["cpu_us_per_session_s"]), 1),
        number(min(result["cpu_us_per_session_s"] for result in results), 1),
        number(median(results, lambda result: result["rss_per_session_kb"]), 1),
        number(median(results, lambda result: result["max_rss_kb"] / 1024), 1),
        number(median(results, lambda result: server_cpu(result) / result["window_s"]), 1),
    ]


def table(workload, param, runs, baseline):
    """Prints the medians of all rounds. `runs` maps an implementation to its results."""
    if workload == "idle_sessions":
        heads = ["connects/s", "client CPU µs per session·s", "least", "RSS KB/session", "RSS MB"]
        heads += ["server CPU µs per session·s"]
        make = idle_row
    else:
        heads = ["ops/s", "min–max", f"× {baseline}", "p50 µs", "p99 µs", "client CPU µs/op", "least"]
        heads += ["server CPU µs/op", "RSS MB", "notes"]
        make = row
    good = {name: [result for result in results if "skip" not in result] for name, results in runs.items()}
    base = median(good[baseline], lambda result: result["ops_per_s"]) if good.get(baseline) else None
    print(f"\n#### `{workload}` {param}\n")
    print("| " + " | ".join(["", *heads]) + " |\n|---|" + "--:|" * len(heads))
    for name, results in good.items():
        if results:
            print("| " + " | ".join([name, *make(results, base)]) + " |")
    for name, results in runs.items():
        bad = [result["skip"] for result in results if "skip" in result]
        if bad:
            print(f"\n{name}: {len(bad)} of {len(results)} runs without a result: {bad[0][:120]}")
    sys.stdout.flush()


def cell(results, base, key, digits):
    """The median, with a ≈ if the rounds do not tell it from that of the baseline."""
    values = list(map(key, results))
    shown = number(statistics.median(values), digits)
    known = list(map(key, base)) if base and base is not results else []
    overlaps = known and min(values) <= max(known) and min(known) <= max(values)
    return shown + (" ≈" if overlaps else "")


def summary(found, baseline):
    """Prints one table of all workloads, as in the README. `found` maps workload and param to runs."""
    names = list(dict.fromkeys(name for runs in found.values() for name in runs))
    print("\n| | " + " | ".join(names) + " |\n|---|" + "--:|" * len(names))
    for (workload, param), runs in found.items():
        good = {name: [result for result in results if "skip" not in result] for name, results in runs.items()}
        if workload == "idle_sessions":
            keys = {
                "connects/s": lambda result: result["ops_per_s"],
                ".. client CPU µs per session·s": lambda result: result["cpu_us_per_session_s"],
                ".. RSS KB/session": lambda result: result["rss_per_session_kb"],
            }
        else:
            keys = {
                "ops/s": lambda result: result["ops_per_s"],
                ".. p50 µs": lambda result: result["p50_us"],
                ".. p99 µs": lambda result: result["p99_us"],
                ".. client CPU µs/op": client_cpu,
            }
        for what, key in keys.items():
            digits = 1 if "CPU" in what else 0
            cells = [cell(good[name], good.get(baseline), key, digits) if good.get(name) else "–" for name in names]
            head = what if what.startswith("..") else f"`{workload}` {param}: {what}"
            print(f"| {head} | " + " | ".join(cells) + " |")
    sys.stdout.flush()


def report(path, only, baseline):
    found = {}
    for line in pathlib.Path(path).read_text().splitlines():
        result = json.loads(line)
        if not only or result["name"] in only:
            runs = found.setdefault((result["workload"], result["param"]), {})
            runs.setdefault(result["name"], []).append(result)
    for (workload, param), runs in found.items():
        table(workload, param, runs, baseline)
    return found


def measure(options, commands, pid, workload, param):
    runs = {name: [] for name in commands}
    for _ in range(options.rounds):
        for name, command in commands.items():
            if any("skip" in result and not failed(result) for result in runs[name]):
                continue  # not offered: another run is useless
            for _ in range(1 + options.repeats):
                wait_for_quiet(options.quiet_wait, options.max_other)
                result = run(command, options.server, workload, options.secs, param, pid)
                if "skip" in result or others_share(result) <= options.max_other:
                    break
            runs[name].append(result)
            told = result.get("skip") or f"{result['ops_per_s']:.0f}/s"
            print(f"  {workload} {param} {name}: {told}", file=sys.stderr, flush=True)
            if options.json:
                with open(options.json, "a") as out:
                    key = {"name": name, "workload": workload, "param": param}
                    out.write(json.dumps(result | key) + "\n")
    table(workload, param, runs, options.baseline)
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("server", nargs="?", metavar="HOST:PORT")
    add("workloads", nargs="*", metavar="WORKLOAD:PARAM,...")
    add("--implementations", default=PEERS / "implementations.conf", metavar="FILE")
    add("--only", type=lambda names: names.split(","), metavar="NAME,...")
    add("--rounds", type=int, default=3)
    add("--secs", type=float, default=3)
    add("--baseline", default="lockkeeper", help="the implementation whose ops/s are 1.00 in the tables")
    add("--json", metavar="FILE", help="append every result to FILE")
    add("--report", metavar="FILE", help="run nothing; print the tables of saved results")
    add("--summary", action="store_true", help="also print one table of the medians of all workloads")
    add("--server-pid", type=int, help="the server's process, if it cannot be found by its port")
    add("--max-other", type=float, default=0.15, help="repeat a run when other processes used more than this share of a core")
    add("--repeats", type=int, default=2)
    add("--quiet-wait", type=float, default=15, help="seconds to wait for a quiet machine before each run")
    options = parser.parse_intermixed_args()
    if options.report:
        found = report(options.report, options.only, options.baseline)
        return summary(found, options.baseline) if options.summary else None
    if not (options.server and options.workloads):
        parser.error("a server and a workload are needed")
    known = implementations(options.implementations)
    commands = {name: known[name] for name in options.only or known}
    pid = options.server_pid or listener(options.server)
    if not pid:
        print("cannot find the server's process, so the server's CPU time is not measured: set --server-pid", file=sys.stderr)
    found = {}
    for spec in options.workloads:
        workload, params = spec.split(":")
        for param in map(int, params.split(",")):
            found[workload, param] = measure(options, commands, pid, workload, param)
    if options.summary:
        summary(found, options.baseline)
    results = [(name, result) for runs in found.values() for name in runs for result in runs[name]]
    silent = set(commands) - {name for name, result in results if "skip" not in result}
    # Without --only, programs that are not built are left out.
    if silent and (options.only or silent == set(commands)):
        return f"no result of {', '.join(sorted(silent))}; to build them: bench/peers/build.sh"


if __name__ == "__main__":
    sys.exit(main())
