#!/usr/bin/env python3
"""Full training step of GPT-2 124M (B=4, T=256, AdamW): penstock on one rank of two threads and on two ranks of one
thread with four micro-batches, PyTorch eager beside them, in turn.

    bench/gpt2_step.py [--rounds N] [--steps N] [--no-torch] [--json]

Prints the median and spread of tokens per second of each, and the ratios round by round. Needs ./dev build, and torch
for the peer."""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PENSTOCK = os.environ.get("PENSTOCK", os.path.join(HERE, "..", "build", "release", "penstock"))
RUN = """name: gpt2
model: {{kind: gpt, preset: gpt2, context: 256}}
data: {{kind: text, paths: ["{data}"], validation: 0}}
train: {{steps: {steps}, batch: 4, micro_batch: {micro}, lr: 1.0e-4, warmup: 1}}
parallel: {{pipeline: {ranks}, schedule: {schedule}, threads: {threads}}}
checkpoint: {{every: 0}}
"""


def ours(folder, steps, ranks, threads, micro, schedule):
    """Tokens per second: median over the steps but the first."""
    path = os.path.join(folder, "run.yaml")
    with open(path, "w", encoding="ascii") as f:
        f.write(RUN.format(data=os.path.join(folder, "text"), steps=steps, micro=micro, ranks=ranks,
                           threads=threads, schedule=schedule))
    runs = tempfile.mkdtemp(dir=folder)
    subprocess.run([PENSTOCK, "train", path, "--runs", runs, "--quiet"], check=True, timeout=560)
    with open(os.path.join(runs, "gpt2", "metrics.jsonl"), encoding="ascii") as f:
        lines = [json.loads(line) for line in f]
    subprocess.run(["rm", "-rf", runs], check=True)
    steps = [line for line in lines if "event" not in line]
    return statistics.median(line["tokens_per_s"] for line in steps[1:]), steps[-1]


def torch_eager(steps, tuned):
    """Tokens per second as bench/peer_torch.py prints them; its defaults, or with glibc's malloc tuned by hand."""
    command = [sys.executable, os.path.join(HERE, "peer_torch.py"), "--preset", "gpt2", "-B", "4", "-T", "256", "--steps",
               str(steps)] + ([] if tuned else ["--plain"])
    out = subprocess.run(command, check=True, timeout=560, capture_output=True, text=True).stdout
    return float(re.search(r"([0-9.]+) tok/s", out).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--schedule", default="1f1b")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = {"one rank": [], "two ranks": [], "torch eager": [], "torch eager, tuned malloc": []}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.path.join(HERE, "..", "src"), os.path.join(folder, "text"))
        for _ in range(args.rounds):
            rate, last = ours(folder, args.steps, 1, 2, 4, args.schedule)
            rows["one rank"].append(rate)
            if not args.no_torch:
                rows["torch eager"].append(torch_eager(args.steps, False))
                rows["torch eager, tuned malloc"].append(torch_eager(args.steps, True))
            rate, last2 = ours(folder, args.steps, 2, 1, 1, args.schedule)
            rows["two ranks"].append(rate)
            print({k: round(v[-1], 1) for k, v in rows.items() if v}, flush=True)
    result = {}
    for name, rates in rows.items():
        if rates:
            result[name] = {"median": statistics.median(rates), "min": min(rates), "max": max(rates)}
    one = rows["one rank"]
    for peer in ("torch eager", "torch eager, tuned malloc"):
        if rows[peer]:
            result["one rank / " + peer] = statistics.median(a / b for a, b in zip(one, rows[peer]))
    result["two ranks / (4/5 of one rank)"] = statistics.median(b / (0.8 * a) for a, b in zip(one, rows["two ranks"]))
    result["resident MiB, one rank"] = last["resident_bytes"][0] / 2**20
    result["peak MiB, one rank"] = last["peak_bytes"][0] / 2**20
    result["resident - peak MiB, two ranks"] = [(a - b) / 2**20 for a, b in zip(last2["resident_bytes"], last2["peak_bytes"])]
    print(json.dumps(result, indent=None if args.json else 2))


if __name__ == "__main__":
    main()
