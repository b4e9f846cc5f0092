#!/usr/bin/env python3
"""Predicted beside measured steps: in each of so many rounds the machine's profile is taken, then every configuration
trains a few steps. Predicted is what the run said before its first step; measured is the median of its steps, the first
two left out; of several rounds both are medians, for a shared host is busy for minutes at times.

    bench/predict.py [--rounds N] [--rows REGEX] [--profile FILE] [--json] [--list]

Per row: predicted, measured, error, the noise (mean deviation of a round's measurement from the median), and whether the
peak bytes were as predicted. Then the mean and largest error, beside the noise, and the mean error of single rounds; and
for configurations that train the same, how much longer the one with the shortest prediction takes than the shortest. None of them was used to
tune the predictions. Rows "timed" run the real executor over ucx, on as many ranks as they say, on a device that sleeps
instead of computing: their error is the executor's and the messages'. Needs ./dev build; about three minutes a round on
two idle cores."""

import argparse
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import needs
from needs import PENSTOCK

MODELS = {
    "nano": "kind: gpt, preset: nano",
    "six": "kind: gpt, layers: 6, heads: 6, channels: 192, context: 64",
    "wide": "kind: gpt, layers: 3, heads: 8, channels: 512, context: 64",
    "mlp": "kind: mlp, layers: 4, channels: 384, context: 64",
}
SECONDS, LEAST, MOST = 1.5, 7, 60  # of a run's steps
WANTED_MEAN, WANTED_NOISE, WANTED_MOST, WANTED_CHOICE = 0.05, 1.5, 0.12, 1.03


def rows():
    """name: (model, batch, micro_batch, keys of parallel)"""
    out = {}

    def add(model, batch, micro, name, *keys):
        out[f"{model} {micro}x{batch // micro} {name}"] = (model, batch, micro, keys)
    two = "pipeline=2"
    add("nano", 16, 2, "one rank", "pipeline=1")
    add("nano", 64, 8, "one rank", "pipeline=1")
    for schedule in ("gpipe", "1f1b", "1f1b-early", "interleaved", "zb-h1", "zb-v"):
        add("nano", 16, 2, schedule, two, "schedule=" + schedule)
    add("nano", 16, 2, "replicas", "pipeline=1", "data=2")
    add("nano", 64, 8, "1f1b", two)
    add("nano", 64, 8, "zb-h2", two, "schedule=zb-h2")
    add("nano", 16, 2, "1f1b, all again", two, "recompute=full")
    add("nano", 64, 8, "1f1b, some again", two, "recompute=selective")
    add("nano", 64, 8, "replicas, zero 0", "pipeline=1", "data=2", "zero=0")
    add("nano", 64, 8, "tensor", "pipeline=1", "tensor=2")
    add("nano", 16, 2, "1f1b, slow second", two, "throttle=[1, 2]")
    add("six", 8, 1, "one rank", "pipeline=1")
    add("six", 8, 1, "1f1b", two)
    add("six", 8, 1, "zb-h1", two, "schedule=zb-h1")
    add("six", 16, 4, "gpipe", two, "schedule=gpipe")
    add("six", 16, 4, "zb-v", two, "schedule=zb-v")
    add("six", 16, 4, "replicas", "pipeline=1", "data=2")
    add("six", 16, 4, "tensor", "pipeline=1", "tensor=2")
    add("six", 8, 1, "1f1b, all again", two, "recompute=full")
    add("six", 8, 1, "1f1b, slow first", two, "throttle=[1.5, 1]")
    add("wide", 8, 2, "one rank", "pipeline=1")
    add("wide", 8, 2, "1f1b", two)
    add("wide", 8, 2, "zb-h1", two, "schedule=zb-h1")
    add("wide", 8, 2, "replicas", "pipeline=1", "data=2")
    add("wide", 8, 2, "replicas, zero 2", "pipeline=1", "data=2", "zero=2")
    add("wide", 8, 2, "tensor", "pipeline=1", "tensor=2")
    add("mlp", 64, 8, "one rank", "pipeline=1")
    add("mlp", 64, 8, "1f1b", two)
    add("mlp", 64, 8, "zb-h1", two, "schedule=zb-h1")
    add("mlp", 64, 8, "replicas", "pipeline=1", "data=2")
    add("nano", 32, 2, "timed, 4 stages, 1f1b", "pipeline=4", "device=timed")
    add("six", 16, 1, "timed, 8 stages, 1f1b", "pipeline=8", "device=timed")
    add("six", 16, 1, "timed, 4 stages, zb-h1", "pipeline=4", "schedule=zb-h1", "device=timed")
    add("nano", 32, 2, "timed, 4 stages, interleaved", "pipeline=4", "schedule=interleaved", "device=timed")
    return out


def run_file(folder, model, batch, micro):
    path = os.path.join(folder, f"{model}-{batch}-{micro}.yaml")
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"name: {model}\nmodel: {{{MODELS[model]}}}\n"
                    f"data: {{paths: [\"{folder}/text\"], validation: 0}}\n"
                    f"train: {{batch: {batch}, micro_batch: {micro}}}\nparallel: {{threads: 1}}\n"
                    "checkpoint: {every: 0}\n")
    return path


def penstock(*words):
    subprocess.run([PENSTOCK, *words], check=True, timeout=300, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def take_profile(folder, wanted, path):
    """Of every model, with the micro-batches and tensor degrees that its rows have."""
    for model in MODELS:
        own = [(batch, micro, any(k == "tensor=2" for k in keys)) for m, batch, micro, keys in wanted if m == model]
        for tensor in (False, True):
            sizes = sorted({micro for _, micro, t in own if t == tensor})
            if sizes:
                penstock("profile", run_file(folder, model, sizes[0], sizes[0]), "-o", path,
                         "-n", "2" if tensor else "1", "parallel.tensor=" + ("2" if tensor else "1"),
                         "--micro-batches", ",".join(map(str, sizes)))


def train(folder, path, row, steps):
    """(predicted, measured) milliseconds, and whether all peaks are as predicted."""
    model, batch, micro, keys = row
    with tempfile.TemporaryDirectory(dir=folder) as runs:
        penstock("train", run_file(folder, model, batch, micro), "-q", "--runs", runs, f"train.steps={steps}",
                 "train.warmup=1", "log.level=error", "parallel.profile=" + path, *("parallel." + key for key in keys))
        with open(glob.glob(runs + "/*/metrics.jsonl")[0], encoding="utf-8") as f:
            lines = [line for line in map(json.loads, f) if "step_ms" in line]
    equal = all(line["peak_bytes"] == line["predicted_peak_bytes"] for line in lines)
    return lines[0]["predicted_step_ms"], statistics.median(line["step_ms"] for line in lines[2:]), equal


def measure(args, folder):
    with open(folder + "/text", "w", encoding="utf-8") as f:
        f.write("The quick brown fox jumps over the lazy dog; the five boxing wizards jump quickly.\n" * 4000)
    chosen = {name: row for name, row in rows().items() if re.search(args.rows, name)}
    began = time.monotonic()
    steps, found = {}, {name: [] for name in chosen}
    for k in range(args.rounds):
        path = os.path.abspath(args.profile) if args.profile else f"{folder}/profile-{k}.yaml"
        if not os.path.exists(path):
            take_profile(folder, chosen.values(), path)
        print(f"profile {k + 1}: {time.monotonic() - began:.0f} s", file=sys.stderr)
        for name, row in chosen.items():
            if name not in steps:
                steps[name] = min(MOST, max(LEAST, int(SECONDS * 1e3 / train(folder, path, row, 3)[0])))
            found[name].append(train(folder, path, row, steps[name]))
        print(f"round {k + 1}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return [conclude(name, chosen[name], laps) for name, laps in found.items()]


def conclude(name, row, laps):
    times = [lap[1] for lap in laps]
    middle, predicted = statistics.median(times), statistics.median(lap[0] for lap in laps)
    return {"row": name, "same": row[:3], "timed": "device=timed" in row[3], "slowed": "slow" in name,
            "predicted_ms": predicted, "measured_ms": middle, "error": predicted / middle - 1,
            "single_error": statistics.mean(abs(lap[0] / lap[1] - 1) for lap in laps),
            "noise": statistics.mean(abs(x / middle - 1) for x in times), "peaks_equal": all(lap[2] for lap in laps)}


def choices(found):
    """Of rows that train the same: what the one with the shortest prediction takes, over the shortest."""
    groups = {}
    for row in found:
        if not row["timed"] and not row["slowed"]:
            groups.setdefault(tuple(row["same"]), []).append(row)
    return {" ".join(map(str, key)): min(g, key=lambda r: r["predicted_ms"])["measured_ms"] /
            min(r["measured_ms"] for r in g) for key, g in groups.items() if len(g) > 2}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--rows", default="")
    p.add_argument("--profile", help="take or reuse this one, in all rounds")
    p.add_argument("--json", action="store_true")
    p.add_argument("--list", action="store_true")
    args = p.parse_args()
    needs.check()
    if args.list:
        print("\n".join(rows()))
        return
    with tempfile.TemporaryDirectory() as folder:
        found = measure(args, folder)
    errors, noise = [abs(row["error"]) for row in found], statistics.mean(row["noise"] for row in found)
    limit = max(WANTED_MEAN, WANTED_NOISE * noise)
    result = {"rows": found, "mean_error": statistics.mean(errors), "max_error": max(errors), "noise": noise,
              "single_mean_error": statistics.mean(row["single_error"] for row in found),
              "wanted_mean": limit, "wanted_max": WANTED_MOST, "choices": choices(found),
              "wanted_choice": WANTED_CHOICE}
    if args.json:
        print(json.dumps(result))
        return
    print(f"{'':34s} {'predicted':>10s} {'measured':>10s} {'error':>7s} {'noise':>6s}")
    for row in found:
        print(f"{row['row']:34s} {row['predicted_ms']:7.2f} ms {row['measured_ms']:7.2f} ms {row['error']:+7.1%} "
              f"{row['noise']:6.1%}{'' if row['peaks_equal'] or row['timed'] else '  peak bytes differ'}")
    print(f"{len(found)} rows: mean error {result['mean_error']:.1%} (wanted <= {limit:.1%}), largest "
          f"{result['max_error']:.1%} (wanted <= {WANTED_MOST:.0%}), noise {noise:.1%}; of single rounds "
          f"{result['single_mean_error']:.1%} on average")
    for key, ratio in result["choices"].items():
        print(f"{key}: the shortest prediction's step is {ratio:.3f} x the shortest (wanted <= {WANTED_CHOICE})")


if __name__ == "__main__":
    main()
