#!/usr/bin/env python3
"""What the executor and the transport cost: the instruction lists of 1f1b over equal stages, 32 micro-batches of
F = B = W = 2 ms and messages of 64 KiB, run by the clock on the `timed` device over ucx, a process a stage, against the
simulated makespan, in which messages take no time.

    bench/timed.py [--rounds N] [--schedule NAME] [--message BYTES] [--json]

For 2 and 8 ranks, in turn: the median of all laps / simulated, smallest and largest lap, and how many cores were busy.
Each round is a job of its own with five laps. Needs ./dev build."""

import argparse
import json
import statistics
import subprocess

import needs
from needs import PENSTOCK

WANTED = {2: 1.02, 8: 1.05}


def lap(ranks, args):
    command = [PENSTOCK, "simulate", "--schedule", args.schedule, "-p", str(ranks), "-m", "32", "--times", "2,2,2",
               "--transport", "ucx", "--message", str(args.message), "--json"]
    out = subprocess.run(command, check=True, timeout=120, capture_output=True, text=True).stdout
    result = json.loads(out)
    measured = result["measured"]
    return result["makespan_ns"], measured["makespan_ns"], measured["cores"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--schedule", default="1f1b")
    parser.add_argument("--message", type=int, default=65536)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    needs.check()
    rows = {ranks: ([], []) for ranks in WANTED}
    for _ in range(args.rounds):
        for ranks, (ratios, cores) in rows.items():
            simulated, laps, busy = lap(ranks, args)
            ratios += [x / simulated for x in laps]
            cores.append(busy)
    result = {f"{ranks} ranks": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios),
                                 "laps": len(ratios), "cores": statistics.median(cores), "wanted": WANTED[ranks]}
              for ranks, (ratios, cores) in rows.items()}
    if args.json:
        print(json.dumps(result))
        return
    print("measured / simulated makespan")
    for name, row in result.items():
        print(f"{name}  {row['median']:.4f}  ({row['min']:.4f} to {row['max']:.4f}, {row['laps']} laps, "
              f"{row['cores']:.2f} cores busy; wanted <= {row['wanted']})")


if __name__ == "__main__":
    main()
