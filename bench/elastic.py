#!/usr/bin/env python3
"""What an elastic run costs when no rank dies, and how long a recovery takes.

    bench/elastic.py [--model nano|gpt2] [--ranks 4] [--rounds 6] [--steps 30] [--kills 0] [--set KEY=VALUE ...]
                     [--hosts 1gbit [--lose rank|host|link]]

Plain and elastic runs take turns, so that both see the same load. Printed are the median step, the 10th percentile (the
least disturbed steps) and the processor time of a step, without the first steps of each run; and the time in the
optimizer, the only part that differs. With --kills, a rank of as many elastic runs is killed with SIGKILL at a random
moment: time to the end of the next step, beside what was predicted. With --hosts (root) the ranks are on two hosts,
network namespaces joined by a link of that rate; what is lost is a rank, the second host (its launcher is killed) or
the link. nano: 0.8 M parameters; gpt2: GPT-2 with 124 M."""

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

import hosts
import needs

MODELS = {
    "nano": ["model.preset=nano", "train.batch=32"],
    "gpt2": ["model.preset=gpt2", "model.context=128", "train.batch=4", "train.micro_batch=1"],
}
FIRST = 5  # steps that are not counted: memory is written for the first time
RUN = """name: run
model: {kind: gpt}
data: {kind: text, paths: [text], validation: 0}
train: {lr: 1.0e-3, warmup: 0, seed: 1}
parallel: {threads: 1}
checkpoint: {every: 0}
"""


def begin(o, words):
    shutil.rmtree("runs", ignore_errors=True)
    where = []
    if o.net:
        with open("hosts", "w", encoding="ascii") as f:
            f.writelines(f"{address} slots={o.ranks // 2}\n" for address in o.net.address)
        where = ["--hostfile", "hosts"]
        os.environ.update(PENSTOCK_SSH=o.net.ssh, UCX_TLS="tcp,self")
    return subprocess.Popen([needs.PENSTOCK, "train", "run.yaml", "-q", "-n", str(o.ranks), f"train.steps={o.steps}",
                             *MODELS[o.model], *where, *o.set, *words], stdin=subprocess.DEVNULL, process_group=0)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(c) for c in f.read().split()]


def lose(o, p, dice):
    """Kills a rank, or what --lose says."""
    if not o.net:
        os.kill(dice.choice(children(p.pid)), signal.SIGKILL)
    elif o.lose == "rank":
        os.kill(dice.choice([r for host in children(p.pid) for r in children(host)]), signal.SIGKILL)
    elif o.lose == "host":
        os.kill(children(p.pid)[1], signal.SIGKILL)
    else:
        set_link(o, "down")


def set_link(o, state):
    subprocess.run(["ip", "-n", o.net.names[1], "link", "set", "v0", state], check=True)


def nobody_is_left(o):
    end = time.monotonic() + 20
    while o.net and time.monotonic() < end:
        if not any(subprocess.run(["ip", "netns", "pids", name], capture_output=True, check=True).stdout
                   for name in o.net.names):
            return
        time.sleep(0.05)
    if o.net:
        raise SystemExit("processes are left on the hosts")


def lines():
    try:
        with open("runs/run/metrics.jsonl", encoding="utf-8") as f:
            return [json.loads(line) for line in f.read().split("\n")[:-1]]
    except OSError:
        return []


def processor_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def undisturbed(o, words):
    """Steps and optimizer in ms, processor seconds, hash."""
    before = processor_s()
    if begin(o, words).wait():
        raise SystemExit("a run failed")
    all_lines = lines()
    steps = [line for line in all_lines if "event" not in line][FIRST:]
    optimizer = [line["work_s"]["optimizer"] * 1e3 / o.ranks for line in steps]
    return [s["step_ms"] for s in steps], optimizer, processor_s() - before, all_lines[-1]["weights_xxh64"]


def low(values):
    return sorted(values)[len(values) // 10]


def costs(o):
    ms, optimizer, used, hashes = {0: [], 1: []}, {0: [], 1: []}, {0: [], 1: []}, set()
    for i in range(2 * o.rounds):
        elastic = (i + i // 2) % 2
        one = undisturbed(o, ["--elastic"] if elastic else [])
        ms[elastic] += one[0]
        optimizer[elastic] += one[1]
        used[elastic].append(one[2])
        hashes.add(one[3])
    for name, of in (("median step", statistics.median), ("10th percentile", low)):
        plain, with_it = of(ms[0]), of(ms[1])
        print(f"{name}: {plain:.2f} ms, elastic {with_it:.2f} ms: {100 * (with_it / plain - 1):+.2f} %")
    a, b = statistics.median(optimizer[0]), statistics.median(optimizer[1])
    print(f"optimizer, mean of the ranks: {a:.3f} ms, elastic {b:.3f} ms: "
          f"{100 * (b - a) / statistics.median(ms[0]):+.2f} % of the median step")
    a, b = statistics.median(used[0]), statistics.median(used[1])
    print(f"processor time of a run: {a:.2f} s, elastic {b:.2f} s: {100 * (b / a - 1):+.2f} %")
    print("weights:", "equal" if len(hashes) == 1 else hashes, flush=True)


def killed(o, dice):
    """The recovery event of a run whose rank is killed."""
    p = begin(o, ["--elastic"])
    at = dice.randrange(2, o.steps - 3)
    while p.poll() is None and len([line for line in lines() if "event" not in line]) < at:
        time.sleep(0.005)
    shown = [line for line in lines() if "event" not in line]
    time.sleep(dice.random() * (shown[-1]["step_ms"] if shown else 0) * 1e-3)
    try:
        lose(o, p, dice)
    except (FileNotFoundError, ProcessLookupError, IndexError):
        print("a run ended before something was lost; more --steps prevent that", flush=True)
    if p.wait():
        raise SystemExit("a run failed")
    nobody_is_left(o)
    if o.net and o.lose == "link":
        set_link(o, "up")
    return [line for line in lines() if line.get("event") == "recovery"], lines()[-1]["weights_xxh64"]


def recoveries(o):
    dice = random.Random(o.seed)
    got, hashes = [], {undisturbed(o, [])[3]}
    for _ in range(o.kills):
        events, weights = killed(o, dice)
        got += events
        hashes.add(weights)
    seconds = sorted(e["seconds"] for e in got)
    off = [abs(e["predicted_seconds"] / e["seconds"] - 1) for e in got]
    print(f"{o.kills} kills, {len(got)} recoveries: median {statistics.median(seconds):.2f} s, "
          f"95 % {seconds[int(0.95 * len(seconds))]:.2f} s, longest {seconds[-1]:.2f} s; "
          f"predictions: median error {100 * statistics.median(off):.0f} %; "
          f"steps repeated from checkpoints: {sum(e.get('repeated_steps', 0) for e in got)}; "
          f"most bytes of state that a host read from others: {max(e.get('moved_bytes', 0) for e in got)}")
    print("weights:", "equal" if len(hashes) == 1 else hashes)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", choices=MODELS, default="nano")
    p.add_argument("--ranks", type=int, default=4)
    p.add_argument("--rounds", type=int, default=6)
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("--kills", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--set", nargs="*", default=[])
    p.add_argument("--hosts", metavar="RATE")
    p.add_argument("--lose", choices=["rank", "host", "link"], default="host")
    o = p.parse_args()
    needs.check(*([("ip", "iproute2"), ("tc", "iproute2")] if o.hosts else []), root=bool(o.hosts))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("run.yaml", "w", encoding="utf-8") as f:
            f.write(RUN)
        with open("text", "w", encoding="utf-8") as f:
            f.write("the quick brown fox jumps over the lazy dog\n" * 400)
        with hosts.Hosts(folder, o.hosts) if o.hosts else contextlib.nullcontext() as o.net:
            if o.rounds:
                costs(o)
            if o.kills:
                recoveries(o)


if __name__ == "__main__":
    main()
