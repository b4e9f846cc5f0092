#!/usr/bin/env python3
"""How long does a start take? From before the program is executed to the first instruction of the first step, `nano` on
4 local ranks of one thread, by the monotonic clock that both sides share.

    bench/start.py [--rounds N] [--ranks N] [--json]

Also, in turn, what a start without ranks of its own takes (transport self, all ranks in one process), and the whole
run of one step to its end. Needs ./dev build."""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time

import needs
from needs import PENSTOCK

HERE = os.path.dirname(os.path.abspath(__file__))
WANTED = 0.5
RUN = """name: start
model: {{kind: gpt, preset: nano}}
data: {{kind: text, paths: ["{text}/**/*.c"], validation: 0}}
train: {{steps: 1, batch: 16, micro_batch: 4}}
parallel: {{pipeline: {ranks}, threads: 1}}
checkpoint: {{every: 0}}
log: {{level: debug}}
"""


def start(folder, *more):
    """Seconds to the first instruction, and to the end of the run."""
    runs = tempfile.mkdtemp(dir=folder)
    command = [PENSTOCK, "train", os.path.join(folder, "run.yaml"), "--runs", runs, *more]
    begin = time.monotonic_ns()
    done = subprocess.run(command, check=True, timeout=120, capture_output=True, text=True, cwd=folder)
    end = time.monotonic_ns()
    first = re.search(r"first instruction at (\d+) ns", done.stderr)
    shutil.rmtree(runs)
    return (int(first.group(1)) - begin) * 1e-9, (end - begin) * 1e-9


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    needs.check()
    rows = {f"{args.ranks} ranks": [], "all in one process": [], f"{args.ranks} ranks, whole run of one step": []}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.path.join(HERE, "..", "src"), os.path.join(folder, "text"))
        with open(os.path.join(folder, "run.yaml"), "w", encoding="ascii") as f:
            f.write(RUN.format(text=os.path.join(folder, "text"), ranks=args.ranks))
        for _ in range(args.rounds):
            first, end = start(folder)
            rows[f"{args.ranks} ranks"].append(first)
            rows[f"{args.ranks} ranks, whole run of one step"].append(end)
            rows["all in one process"].append(start(folder, "parallel.transport=self")[0])
    result = {name: spread(values) for name, values in rows.items()}
    if args.json:
        print(json.dumps({**result, "wanted": WANTED}))
        return
    print(f"seconds from exec to the first instruction, nano, medians of {args.rounds} (wanted < {WANTED})")
    for name, row in result.items():
        print(f"{name:32s} {row['median']:.3f}  ({row['min']:.3f} to {row['max']:.3f})")


if __name__ == "__main__":
    main()
