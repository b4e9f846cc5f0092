#!/usr/bin/env python3
"""Checkpoints in the background, GPT-2 124M with AdamW (B=4, T=256; 1.5 GB each): how much longer steps take while one
is written, and at what rate it is written, synced and read back, beside dd on the same folder.

    bench/checkpoint.py [--rounds N] [--every N] [--context N] [--ranks N] [--folder DIR] [--json]

One run writes a checkpoint every few steps. Whenever one is done the job is stopped, dd writes as many bytes with
conv=fsync and with oflag=direct, and the job goes on; the step that was stopped does not count. Per checkpoint: the
steps that ended while it was being written / the median of the others around it, its rate / dd's, and the CPU seconds
of the threads that wrote it. Needs ./dev build and room for five checkpoints."""

import argparse
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

import needs
from needs import PENSTOCK

RUN = """name: run
model: {{kind: gpt, preset: {preset}, context: {context}}}
data: {{kind: text, paths: ["{data}"], validation: 0}}
train: {{steps: {steps}, batch: 4, micro_batch: {micro}, lr: 1.0e-4, warmup: 1}}
checkpoint: {{every: {every}, keep: 2}}
"""
WANTED = {"step_ratio": ("<=", 1.05), "rate_ratio": (">=", 0.8)}


def dd(folder, size, *flags):
    """MB/s of writing `size` bytes."""
    path = os.path.join(folder, "dd.bytes")
    block = 8 << 20
    out = subprocess.run(["dd", "if=/dev/zero", f"of={path}", f"bs={block}", f"count={max(1, size // block)}", *flags],
                         check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stderr
    os.unlink(path)
    found = re.search(r"(\d+) bytes .* copied, ([\d.]+) s", out)
    return int(found.group(1)) / float(found.group(2)) / 1e6


def tree(pid):
    """A process and all that it has started."""
    out = [pid]
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as f:
            out += [below for child in f.read().split() for below in tree(int(child))]
    return out


def tell(pids, number):
    for pid in pids:
        os.kill(pid, number)


def saving_cpu(pids):
    """CPU seconds of the threads that write checkpoints."""
    ticks = 0
    for pid in pids:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii") as f:
                name, rest = re.search(r"\((.*)\) (.*)", f.read()).groups()
            if name == "pst-save":
                ticks += sum(int(x) for x in rest.split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


class Lines:
    """metrics.jsonl as it grows."""

    def __init__(self, path):
        self.path, self.file, self.part = path, None, ""

    def new(self):
        if not self.file and os.path.exists(self.path):
            self.file = open(self.path, encoding="ascii")
        if not self.file:
            return []
        *whole, self.part = (self.part + self.file.read()).split("\n")
        return [json.loads(line) for line in whole]


def watch(job, path, folder):
    """Follows the job; the list of its steps, and of its checkpoints but the last, at which nothing was trained."""
    lines, steps, saved, cpu = Lines(path), {}, [], 0.0
    while job.poll() is None:
        for line in lines.new():
            if line.get("event") == "checkpoint" and steps:
                pids = tree(job.pid)
                tell(pids, signal.SIGSTOP)
                now, last = saving_cpu(pids), max(steps)
                saved.append({"step": line["step"], "until": last, "bytes": line["bytes"], "seconds": line["seconds"],
                              "mb_per_s": line["mb_per_s"], "held_s": line["held_s"], "cpu_s": now - cpu,
                              "dd_fsync": dd(folder, line["bytes"], "conv=fsync"),
                              "dd_direct": dd(folder, line["bytes"], "oflag=direct")})
                cpu = now
                tell(pids, signal.SIGCONT)
            elif "event" not in line:
                steps[line["step"]] = line["step_ms"]
        time.sleep(0.02)
    return steps, [one for one in saved if one["until"] > one["step"]]


def compare(steps, saved):
    """Fills in the ratios of each checkpoint."""
    during = {k for one in saved for k in range(one["step"] + 1, one["until"] + 1)}
    stopped = {one["until"] + 1 for one in saved} | {1}
    for one in saved:
        near = [ms for k, ms in steps.items() if k not in during | stopped and abs(k - one["step"]) <= 8]
        own = [steps[k] for k in range(one["step"] + 1, one["until"] + 1) if k in steps and k not in stopped]
        one["step_ratio"] = statistics.mean(own) / statistics.median(near)
        one["rate_ratio"] = one["mb_per_s"] / one["dd_fsync"]
        one["step_ms"] = statistics.median(near)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="checkpoints that are counted")
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--preset", default="gpt2")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--folder", default=None, help="on the disk to measure; the current one by default")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    needs.check()
    folder = tempfile.mkdtemp(prefix=".bench-checkpoint-", dir=args.folder or os.getcwd())
    try:
        with open(os.path.join(folder, "text"), "w", encoding="ascii") as f:
            f.write("".join(random.Random(1).choices("the pipe carries water\n", k=1 << 18)))
        path = os.path.join(folder, "run.yaml")
        with open(path, "w", encoding="ascii") as f:
            f.write(RUN.format(preset=args.preset, context=args.context, data=os.path.join(folder, "text"),
                               steps=2 + args.every * (args.rounds + 1), micro=4 if args.ranks == 1 else 1,
                               every=args.every))
        job = subprocess.Popen([PENSTOCK, "train", path, "--runs", folder, "-q", "-n", str(args.ranks)])
        try:
            steps, saved = watch(job, os.path.join(folder, "run", "metrics.jsonl"), folder)
        finally:
            if job.poll() is None:
                tell(tree(job.pid), signal.SIGKILL)
        if job.returncode:
            raise SystemExit(f"penstock ended with status {job.returncode}")
    finally:
        shutil.rmtree(folder)
    compare(steps, saved)
    saved = saved[:args.rounds]
    table = {key: {"median": statistics.median(x), "min": min(x), "max": max(x)} for key in
             ("step_ratio", "rate_ratio", "step_ms", "seconds", "mb_per_s", "dd_fsync", "dd_direct", "held_s", "cpu_s")
             for x in [[one[key] for one in saved]]}
    for key, (sign, value) in WANTED.items():
        table[key]["wanted"] = f"{sign} {value}"
    if args.json:
        print(json.dumps({"bytes": saved[0]["bytes"], "checkpoints": len(saved), **table}))
        return
    print(f"{len(saved)} checkpoints of {saved[0]['bytes'] / 1e6:.0f} MB")
    for key, row in table.items():
        wanted = f"  wanted {row['wanted']}" if "wanted" in row else ""
        print(f"{key:10s}  {row['median']:9.3f}  ({row['min']:.3f} to {row['max']:.3f}){wanted}")


if __name__ == "__main__":
    main()
