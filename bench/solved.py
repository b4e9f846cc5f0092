#!/usr/bin/env python3
"""What the solver of schedules reaches: random pipelines of 2 to 8 stages and p to 4p micro-batches, F, B and W of each
stage drawn from 1 to 3 ms apart, messages of 0 or 0.1 ms; every rank may hold p micro-batches (what 1f1b needs), then
p/2.

    bench/solved.py [--pipelines N] [--seed S] [--rounds N] [--chunks V] [--json]

For both limits: how often `solved` is longer than the shortest named schedule that fits (all simulated; wanted: never),
how much shorter it is on the average, how far above its proven lower bound, and how many chunks per rank it has. Then
the time it takes to solve 16 stages and 64 micro-batches, process and all. One chunk per rank; --chunks V: V of them;
--chunks 0: one chunk, two there and back, two to four in rounds, whatever is shortest, the named ones likewise. Needs
./dev build."""

import argparse
import json
import random
import statistics
import subprocess
import time

import needs
from needs import PENSTOCK

WANTED_GAP, WANTED_SECONDS = 0.03, 1.0


def simulate(schedule, stages, micro_batches, times, transfer, memory, chunks):
    command = [PENSTOCK, "simulate", "--schedule", schedule, "-p", str(stages), "-m", str(micro_batches), "--json",
               "--times", ":".join(",".join(f"{x:.3f}" for x in t) for t in times), "--transfer", str(transfer),
               "--memory", str(memory)] + (["--chunks", str(chunks)] if chunks else [])
    return json.loads(subprocess.run(command, check=True, timeout=120, capture_output=True, text=True).stdout)


def draw(rng, stages):
    return [[rng.uniform(1, 3) for _ in range(3)] for _ in range(stages)]


def compare(args, rng):
    p = rng.randint(2, 8)
    m = rng.randint(p, 4 * p)
    times, transfer = draw(rng, p), rng.choice([0, 0.1])
    for share in (1.0, 0.5):
        rows = simulate("all", p, m, times, transfer, max(1, int(share * p)), args.chunks)
        solved = next(row for row in rows if row["schedule"] == "solved")
        rows += [simulate("interleaved", p, m, times, transfer, max(1, int(share * p)), v)
                 for v in ([] if args.chunks else [3, 4])]
        named = [row["makespan"] for row in rows if row["schedule"] != "solved" and row["fits"]]
        yield share, {"stages": p, "micro_batches": m, "gap": solved["gap"], "fits": solved["fits"], "chunks": solved["chunks"],
                      "of_named": solved["makespan"] / min(named) if named else None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chunks", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    needs.check()
    rng = random.Random(args.seed)
    found = {1.0: [], 0.5: []}
    for _ in range(args.pipelines):
        for share, row in compare(args, rng):
            found[share].append(row)
    seconds = []
    for _ in range(args.rounds):
        begin = time.perf_counter()
        last = simulate("solved", 16, 64, draw(rng, 16), 0.1, 16, args.chunks)
        seconds.append(time.perf_counter() - begin)
    result = {"pipelines": args.pipelines, "seed": args.seed, "wanted_gap": WANTED_GAP, "wanted_s": WANTED_SECONDS,
              "memory": {},
              "seconds_16x64": {"median": statistics.median(seconds), "min": min(seconds), "max": max(seconds),
                                              "n": len(seconds), "gap": last["gap"]}}
    for share, rows in found.items():
        named = [row["of_named"] for row in rows if row["of_named"]]
        gaps = [row["gap"] for row in rows]
        result["memory"][str(share)] = {
            "longer": sum(x > 1 for x in named), "too_much_held": sum(not row["fits"] for row in rows),
            "with_named": len(named), "mean_of_named": statistics.mean(named) if named else None,
            "mean_gap": statistics.mean(gaps), "median_gap": statistics.median(gaps), "worst_gap": max(gaps),
            "optimal": sum(x < 1e-9 for x in gaps), "chunks": {v: sum(row["chunks"] == v for row in rows)
                                                             for v in sorted({row["chunks"] for row in rows})}}
    if args.json:
        print(json.dumps(result))
        return
    for share, row in result["memory"].items():
        of_named = f"{row['mean_of_named']:.3f} x it" if row["mean_of_named"] else "none fits"
        print(f"{share} x the memory of 1f1b: longer than the best named schedule {row['longer']} times of "
              f"{row['with_named']} "
              f"(mean {of_named}); gap to the bound: mean {row['mean_gap']:.2%}, median {row['median_gap']:.2%}, worst "
              f"{row['worst_gap']:.2%} (wanted mean <= {WANTED_GAP:.0%}), proven optimal {row['optimal']} of "
              f"{len(found[float(share)])}; chunks per rank: {', '.join(f'{v} in {n}' for v, n in row['chunks'].items())}"
              + (f"; {row['too_much_held']} HOLD TOO MUCH" if row["too_much_held"] else ""))
    row = result["seconds_16x64"]
    print(f"16 stages, 64 micro-batches: {row['median']:.2f} s ({row['min']:.2f} to {row['max']:.2f}, "
          f"{row['n']} times; "
          f"wanted < {WANTED_SECONDS} s)")


if __name__ == "__main__":
    main()
