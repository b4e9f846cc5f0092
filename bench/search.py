#!/usr/bin/env python3
"""Whether `penstock plan` misses layouts on random models and clusters, and how far it is from its lower bound.

    bench/search.py [--problems N] [--seed S] [--first I] [--gaps-only] [--json]

Each problem (150) is planned with nothing given, then with one key given at a time: `pipeline`, `tensor`, `data`,
`micro_batch`, `schedule`, `chunks`, `zero`, `recompute`, each with all its usual values. A given key leaves fewer
layouts, so that a shorter step with it is one that the open search missed: such problems are listed with their commands.
Problem I follows from the seed and I alone. Problems without a layout that fits are drawn again. Seconds are processor
time of the open searches. Needs ./dev build."""

import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile

import needs
from needs import PENSTOCK

MODELS = [(12, 768, 12), (24, 1024, 16), (24, 2048, 16), (32, 2560, 32), (40, 5120, 40), (16, 1536, 16), (48, 1600, 25)]
KINDS = [("h100", 8), ("a100-80", 8), ("a100-40", 8), ("v100", 4), ("h200", 8)]
LINKS = ["ib:25Gb/s", "ib:100Gb/s", "ib:400Gb/s"]
SCHEDULES = ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipev"]


def cluster_of(draw):
    kinds = draw.sample(KINDS, 2 if draw.random() < 0.4 else 1)
    parts = []
    for kind, most in kinds:
        parts.append(f"{draw.choice([1, 1, 2, 4])}x{draw.choice([1, 2, 3, 4, most])} {kind}")
    return " + ".join(parts) + " " + draw.choice(LINKS)


def problem_of(seed, i):
    """Run file, as a dictionary, and cluster of problem I."""
    draw = random.Random(seed * 1000003 + i)
    layers, channels, heads = draw.choice(MODELS)
    layers = max(2, int(layers * draw.choice([0.5, 1, 1, 2])))
    context = draw.choice([512, 1024, 2048])
    cluster = cluster_of(draw)
    precision = "fp16" if "v100" in cluster else draw.choice(["bf16", "bf16", "fp32"])
    run = {"model": {"kind": "gpt", "layers": layers, "heads": heads, "channels": channels, "context": context,
                     "vocabulary": 50257},
           "data": {"paths": ["text"]},
           "train": {"batch": draw.choice([8, 16, 32, 48, 64, 96, 128, 256]), "precision": precision}}
    return run, cluster


def given_keys(run, devices):
    """Every single key that is given in turn."""
    for key in ("pipeline", "tensor", "data"):
        yield from (f"parallel.{key}={n}" for n in (1, 2, 3, 4, 6, 8, 12, 16, 32) if n <= devices)
    yield from (f"micro_batch={n}" for n in (1, 2, 4, 8, 16) if run["train"]["batch"] % n == 0)
    yield from (f"schedule={name}" for name in SCHEDULES)
    yield from (f"chunks={n}" for n in (1, 2, 3, 4))
    yield from (f"zero={n}" for n in (0, 1, 2))
    yield from (f"recompute={mode}" for mode in ("none", "selective", "full"))


def plan(path, cluster, *given):
    """What `penstock plan` answers, with its processor time; None: it refuses, or nothing fits."""
    child = subprocess.Popen([PENSTOCK, "plan", path, *given, "--cluster", cluster, "--json"],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    out = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode in (1, 2, 4):
        return None
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, child.args)
    return {**json.loads(out), "seconds": usage.ru_utime + usage.ru_stime}


def check(seed, i, work, gaps_only):
    """The answer for problem I, and the shortest step with one key given."""
    for again in range(100):
        run, cluster = problem_of(seed, i + 1000 * again)
        path = os.path.join(work, "run.yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(run, file)
        found = plan(path, cluster)
        if found:
            break
    row = {"problem": i, "run": run, "cluster": cluster, "step_s": found["step_s"], "gap": found["gap"],
           "bound_s": found["lower_bound_s"], "seconds": found["seconds"], "given": None, "shorter": 0.0, "searches": 1}
    for given in [] if gaps_only else given_keys(run, found["devices"] if "devices" in found else 64):
        one = plan(path, cluster, given)
        row["searches"] += 1
        if one and 1 - one["step_s"] / found["step_s"] > row["shorter"]:
            row["given"], row["shorter"] = given, 1 - one["step_s"] / found["step_s"]
        if one and one["step_s"] < found["lower_bound_s"] * (1 - 1e-9):
            row["violated"] = given
    return row


def show(row):
    text = (f"{row['problem']:4d} {row['step_s']:9.4f} s, gap {100 * row['gap']:5.1f}%, {row['seconds']:.2f} s  "
            f"{row['cluster']}; {json.dumps(row['run']['model'])} {json.dumps(row['run']['train'])}")
    if row["given"]:
        text += f"\n     {100 * row['shorter']:.2f}% shorter with {row['given']}"
    if "violated" in row:
        text += f"\n     SHORTER THAN THE LOWER BOUND with {row['violated']}"
    print(text, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=150)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gaps-only", action="store_true", help="no keys given")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    needs.check()
    rows = []
    with tempfile.TemporaryDirectory() as work:
        for i in range(args.first, args.first + args.problems):
            rows.append(check(args.seed, i, work, args.gaps_only))
            if not args.json:
                show(rows[-1])
    if args.json:
        print(json.dumps(rows))
        return
    gaps = sorted(row["gap"] for row in rows)
    missed = [row["shorter"] for row in rows]
    print(f"seed {args.seed}: {len(rows)} problems, {sum(row['searches'] for row in rows)} searches; a key given is over 1% "
          f"shorter in {sum(m > 0.01 for m in missed)}, at most {100 * max(missed):.1f}% shorter; gap: median "
          f"{100 * statistics.median(gaps):.1f}%, largest {100 * gaps[-1]:.1f}%; open searches "
          f"{sum(row['seconds'] for row in rows):.1f} s of processor time")


if __name__ == "__main__":
    main()
