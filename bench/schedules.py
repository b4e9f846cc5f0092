#!/usr/bin/env python3
"""What schedules cost in reality: the instruction lists of every schedule over equal stages, m = 4p micro-batches of
F = B = W = 5 ms a stage and messages of 64 KiB, run by the clock on the `timed` device over ucx, a process a stage,
against the simulated makespan, in which messages take no time.

    bench/schedules.py [--rounds N] [--stages 2,4,8,16] [--schedules NAME,...] [--message BYTES] [--peer] [--json]

For every schedule and number of stages, in turn: the median of all laps / simulated, and the smallest and largest lap.
Each round is a job of its own with three laps. --peer: 1f1b, interleaved and zb-v of PyTorch as well, in the same
rounds, its stages sleeping (peer_schedules.py); then also ours / PyTorch, median of the rounds. Needs ./dev build."""

import argparse
import json
import os
import statistics
import subprocess
import sys

import needs
from needs import PENSTOCK

HERE = os.path.dirname(os.path.abspath(__file__))
WANTED = {2: 1.02}  # else:
WANTED_CROWDED = 1.04
PEER = ("1f1b", "interleaved", "zb-v")


def simulate(*words):
    out = subprocess.run([PENSTOCK, "simulate", *words, "--times", "5,5,5", "--json"], check=True, timeout=300,
                         capture_output=True, text=True).stdout
    return json.loads(out)


def peer(name, stages, message):
    """Milliseconds of PyTorch's laps; none where it does not run."""
    command = [sys.executable, os.path.join(HERE, "peer_schedules.py"), "--schedule", name, "--stages", str(stages),
               "--micro-batches", str(4 * stages), "--message", str(message), "--json"]
    found = subprocess.run(command, check=False, timeout=900, capture_output=True, text=True)
    if found.returncode:
        print(f"PyTorch, {name}, {stages} stages: {found.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return []
    return json.loads(found.stdout)["makespans_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stages", default="2,4,8,16")
    parser.add_argument("--schedules", default="")
    parser.add_argument("--message", type=int, default=65536)
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    needs.check()
    names = args.schedules.split(",") if args.schedules else [
        row["schedule"] for row in simulate("--schedule", "all", "-p", "2", "-m", "8")]
    rows = {(name, int(p)): [] for p in args.stages.split(",") for name in names}
    beside = {}
    for _ in range(args.rounds):
        for (name, p), ratios in rows.items():
            found = simulate("--schedule", name, "-p", str(p), "-m", str(4 * p), "--transport", "ucx", "--rounds", "3",
                             "--message", str(args.message))
            laps = found["measured"]["makespan_ns"]
            ratios += [x / found["makespan_ns"] for x in laps]
            theirs = peer(name, p, args.message) if args.peer and name in PEER else []
            if theirs:
                beside.setdefault((name, p), []).append(statistics.median(laps) * 1e-6 / statistics.median(theirs))
    result = [{"schedule": name, "stages": p, "median": statistics.median(x), "min": min(x), "max": max(x),
               "laps": len(x), "wanted": WANTED.get(p, WANTED_CROWDED),
               "of_torch": statistics.median(beside[name, p]) if (name, p) in beside else None}
              for (name, p), x in rows.items()]
    if args.json:
        print(json.dumps({"rows": result}))
        return
    print("measured / simulated makespan")
    for row in result:
        print(f"{row['schedule']:12s} {row['stages']:3d} stages  {row['median']:.4f}  "
              f"({row['min']:.4f} to {row['max']:.4f}, "
              f"{row['laps']} laps; wanted <= {row['wanted']})"
              + (f", {row['of_torch']:.3f} x PyTorch's (wanted < 1)" if row["of_torch"] else ""))


if __name__ == "__main__":
    main()
