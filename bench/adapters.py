#!/usr/bin/env python3
"""What fine-tuning of a part saves: a step of GPT-2 124M, and the bytes of its arena, with all parameters, with adapters of
rank 8 (LoRA), and with all but the last layers frozen; in turn, in one process of two threads.

    bench/adapters.py [--rounds N] [--steps N] [--batch N] [--context N] [--preset NAME] [--json]

Per row: the step over that of all parameters, median of the rounds (range); trained parameters; bytes of the arena, which
must be what was predicted; of them the optimizer state, and what it is by hand: 8 bytes per trained parameter. Needs
./dev build."""

import argparse
import json
import os
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import contenders  # pylint: disable=wrong-import-position
import needs  # pylint: disable=wrong-import-position
from rows import spread  # pylint: disable=wrong-import-position

ROWS = {"all parameters": (),
        "adapters, attention": ("adapt.rank=8", "adapt.on=[attention]"),
        "adapters, attention and mlp": ("adapt.rank=8", "adapt.on=[attention,mlp]"),
        "the last two layers": ('train.freeze=["*","!h.10.*","!h.11.*","!ln_f.*"]',)}


def by_hand(args, overrides):
    """Trained parameters of GPT-2: rank (inputs + outputs) for each adapter; 12 c^2 + 13 c for a layer."""
    channels = {"gpt2": 768, "gpt2-medium": 1024}[args.preset]
    layers = {"gpt2": 12, "gpt2-medium": 24}[args.preset]
    text = " ".join(overrides)
    layer = 12 * channels**2 + 13 * channels
    if "freeze" in text:
        return 2 * layer + 2 * channels
    if "adapt" not in text:
        return (50257 + args.context) * channels + layers * layer + 2 * channels
    attention = 8 * ((1 + 3) * channels + (1 + 1) * channels)
    return layers * (attention + (8 * 2 * (1 + 4) * channels if "mlp" in text else 0))


def model_of(args):
    return f"kind: gpt, preset: {args.preset}, context: {args.context}"


def measure(args, overrides):
    """One run, without its first step, in which memory is touched for the first time."""
    with tempfile.TemporaryDirectory(dir=contenders.folder_for_runs()) as folder:
        path, text = os.path.join(folder, "run.yaml"), os.path.join(contenders.HERE, "..", "src", "graph")
        with open(path, "w", encoding="ascii") as f:
            f.write(contenders.RUN.format(model=model_of(args), kind="text", data=text, steps=args.steps + 1,
                                          batch=args.batch, micro=args.batch))
        contenders.output_of([needs.PENSTOCK, "train", path, "--runs", folder, "--quiet", "parallel.threads=2", *overrides])
        with open(os.path.join(folder, "run", "metrics.jsonl"), encoding="ascii") as f:
            lines = [json.loads(line) for line in f]
    steps = [line for line in lines if "event" not in line][1:]
    return {"step_ms": statistics.median(line["step_ms"] for line in steps), "bytes": steps[-1]["peak_bytes"][0],
            "as_predicted": steps[-1]["peak_bytes"] == steps[-1]["predicted_peak_bytes"],
            "state_bytes": lines[0]["predicted_region_bytes"]["optimizer state"][0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--preset", choices=("gpt2", "gpt2-medium"), default="gpt2")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = {name: [] for name in ROWS}
    names = list(ROWS)
    for number in range(args.rounds):
        for name in names[number % len(names):] + names[:number % len(names)]:
            found[name].append(measure(args, ROWS[name]))
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    base, table = found["all parameters"], []
    for name, results in found.items():
        trained = by_hand(args, ROWS[name])
        table.append({"what": name, "step": spread([r["step_ms"] / b["step_ms"] for r, b in zip(results, base)]),
                      "step_ms": spread([r["step_ms"] for r in results]), "trained": trained, "bytes": results[0]["bytes"],
                      "bytes_as_predicted": all(r["as_predicted"] for r in results),
                      "state_bytes": results[0]["state_bytes"], "state_bytes_by_hand": 8 * trained})
    if args.json:
        print(json.dumps({"processor": contenders.doctor()["cpu"]["model"], "rows": table}, indent=1))
        return
    print(f"{'what':28} {'step':>20} {'ms':>8} {'trained':>12} {'arena MiB':>10} {'state':>14} {'by hand':>14}")
    for row in table:
        step = row["step"]
        print(f"{row['what']:28} {step['median']:7.3f} ({step['min']:.3f}-{step['max']:.3f}) "
              f"{row['step_ms']['median']:8.1f} {row['trained']:12,} {row['bytes'] / 2**20:10.1f} "
              f"{row['state_bytes']:14,} {row['state_bytes_by_hand']:14,}"
              f"{'' if row['bytes_as_predicted'] else '  not the predicted bytes'}")


main()
