#!/usr/bin/env python3
"""What each promise costs in time and in bytes: a GPT of 6 layers of 256 channels, context 256, 12 micro-batches of one
sample, on two ranks of one thread; each row beside the one that its group starts with, in turn.

    bench/costs.py [--rounds N] [--steps N] [--groups NAME,...] [--json | --markdown]

Groups: stages (recomputation, precision, post-validation, reproducible, schedules), replicas (ZeRO, reproducible),
tensor (sequence), tensor blocks (parallel.reproducible.tensor, 384 channels), unequal stages and unequal replicas (one
of two devices half as fast, which throttle emulates: the ideal is 4/3 of the step of equal devices). Per row: the step
over that of the group's first row, median of the rounds; the bytes of the rank that needs most, which must be what was
predicted; measured / predicted step, each against the prediction made before it, from
the third step on; and whether the weights come out with the bits of the group's first row. Needs ./dev build."""

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

MODEL = "kind: gpt, layers: 6, heads: 4, channels: 256, context: 256"
BATCH, MICRO = 12, 1
STAGES, REPLICAS, TENSOR = ("parallel.pipeline=2",), ("parallel.data=2",), ("parallel.tensor=2",)
SIX = TENSOR + ("model.channels=384", "model.heads=6")
SLOW = ("parallel.throttle=[1,2]",)
EQUAL = ("parallel.cluster=equal.yaml",)  # says that both are alike; then throttle does not decide who gets what


def schedule(name, *more):
    return (f"schedule {name}", STAGES + (f"parallel.schedule={name}",) + more)


# group: rows of (what, key=value ...); the first one is what the others are compared with
GROUPS = {
    "stages": [("two stages, 1f1b, fp32", STAGES),
               ("recompute: selective", STAGES + ("parallel.recompute=selective",)),
               ("recompute: full", STAGES + ("parallel.recompute=full",)),
               ("precision: bf16", STAGES + ("train.precision=bf16",)),
               ("precision: fp16, dynamic loss scale", STAGES + ("train.precision=fp16",)),
               ("post_validation, clip 1000: nothing to clip", STAGES + ("parallel.post_validation=true", "train.clip=1000")),
               ("post_validation, clip 1", STAGES + ("parallel.post_validation=true",)),
               ("reproducible: 2", STAGES + ("parallel.reproducible=2",)),
               ("reproducible: 4", STAGES + ("parallel.reproducible=4",)),
               schedule("gpipe"), schedule("1f1b-early"), schedule("interleaved"), schedule("zb-h1"), schedule("zb-h2"),
               schedule("zb-v"), schedule("v-half"), schedule("v-min"), schedule("dualpipev"), schedule("solved")],
    "replicas": [("two replicas, zero: 0", REPLICAS + ("parallel.zero=0",)),
                 ("zero: 1", REPLICAS),
                 ("zero: 2", REPLICAS + ("parallel.zero=2",)),
                 ("zero: 1, reproducible: 2", REPLICAS + ("parallel.reproducible=2",)),
                 ("zero: 1, reproducible: 4", REPLICAS + ("parallel.reproducible=4",))],
    "tensor": [("two tensor ranks", TENSOR), ("sequence: true", TENSOR + ("parallel.sequence=true",))],
    "tensor blocks": [("two tensor ranks, 6 layers of 384", SIX),
                      ("reproducible: {tensor: 2}", SIX + ("parallel.reproducible.tensor=2",)),
                      ("reproducible: {tensor: 4}", SIX + ("parallel.reproducible.tensor=4",)),
                      ("reproducible: {tensor: 4}, sequence", SIX + ("parallel.reproducible.tensor=4",
                                                                     "parallel.sequence=true"))],
    "unequal stages": [("two stages on equal devices", STAGES),
                       ("one half as fast: cut by speed (ideal 1.333)", STAGES + SLOW),
                       ("... cut as if both were equal", STAGES + SLOW + EQUAL)],
    "unequal replicas": [("two replicas on equal devices", REPLICAS),
                         ("one half as fast: micro-batches by speed (ideal 1.333)", REPLICAS + SLOW),
                         ("... as many for both", REPLICAS + SLOW + ("parallel.replicas=[6,6]",))],
}


def measure(steps, overrides):
    """One run; None when it failed, which is said."""
    try:
        lines, _, bits = contenders.train(MODEL, BATCH, MICRO, steps, "parallel.threads=1", *overrides)
    except contenders.Failed as why:
        print(why, file=sys.stderr, flush=True)
        return None
    last = lines[-1]
    return {"step_ms": statistics.median(line["step_ms"] for line in lines), "bytes": max(last["peak_bytes"]),
            "bytes_as_predicted": last["peak_bytes"] == last["predicted_peak_bytes"],
            "of_predicted": statistics.median(line["step_ms"] / line["predicted_step_ms"] for line in lines[1:]),
            "rolled_back": sum(line.get("rolled_back_ranks", 0) for line in lines),
            "skipped": last.get("skipped_steps", 0), "bits": bits}


def run_rounds(args, names, folder):
    """{(group, row): [a result per round]}; every round begins with another row."""
    keys = [(group, i) for group in names for i in range(len(GROUPS[group]))]
    found = {key: [] for key in keys}
    for number in range(args.rounds):
        first = number * len(keys) // args.rounds
        for group, i in keys[first:] + keys[:first]:
            overrides = [text.replace("equal.yaml", os.path.join(folder, "equal.yaml")) for text in GROUPS[group][i][1]]
            found[group, i].append(measure(args.steps, overrides))
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    return found


def row_of(what, results, base):
    both = [(r, b) for r, b in zip(results, base) if r and b]
    if not both:
        return {"what": what, "n": 0}
    own = [r for r, _ in both]
    return {"what": what, "n": len(own), "step_ms": spread([r["step_ms"] for r in own]),
            "step": spread([r["step_ms"] / b["step_ms"] for r, b in both]),
            "of_predicted": spread([r["of_predicted"] for r in own]), "mib": own[0]["bytes"] / 2**20,
            "bytes": own[0]["bytes"] / both[0][1]["bytes"],
            "bytes_as_predicted": all(r["bytes_as_predicted"] for r in own),
            "same_bits": all(r["bits"] == b["bits"] for r, b in both),
            "rolled_back": sum(r["rolled_back"] for r in own), "skipped": sum(r["skipped"] for r in own)}


def notes(row):
    """What the figures do not say."""
    out = ["same bits" if row["same_bits"] else "other bits"]
    out += [] if row["bytes_as_predicted"] else ["BYTES NOT AS PREDICTED"]
    out += [f"{row['rolled_back']} ranks went back"] if row["rolled_back"] else []
    out += [f"{row['skipped']} steps skipped"] if row["skipped"] else []
    return ", ".join(out)


def show(table):
    print(f"{'':70} {'step ms':>8} {'step':>6} {'spread':>13} {'MiB':>7} {'bytes':>6} {'measured / predicted':>21}")
    for rows in table.values():
        for row in rows:
            if not row["n"]:
                print(f"{row['what']:70} failed")
                continue
            s, p = row["step"], row["of_predicted"]
            print(f"{row['what']:70} {row['step_ms']['median']:8.1f} {s['median']:6.3f} {s['min']:6.3f}-{s['max']:.3f} "
                  f"{row['mib']:7.1f} {row['bytes']:6.3f} {p['median']:7.3f} ({p['min']:.3f}-{p['max']:.3f})  "
                  f"{notes(row)}")
        print()


def markdown(table):
    print("| promise | step ms | step | spread | MiB, fullest rank | bytes | measured / predicted step | |")
    print("|---|---|---|---|---|---|---|---|")
    for row in (row for rows in table.values() for row in rows if row["n"]):
        s, p = row["step"], row["of_predicted"]
        print(f"| {row['what']} | {row['step_ms']['median']:.0f} | {s['median']:.3f} | {s['min']:.3f}-{s['max']:.3f} | "
              f"{row['mib']:.1f} | {row['bytes']:.3f} | {p['median']:.3f} | {notes(row)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="steps of a run that count; at least 2")
    parser.add_argument("--groups", default=",".join(GROUPS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    needs.check()
    names = args.groups.split(",")
    if args.rounds < 1 or args.steps < 2 or not set(names) <= set(GROUPS):
        parser.error(f"--rounds is at least 1, --steps 2, and groups are: {', '.join(GROUPS)}")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "equal.yaml"), "w", encoding="ascii") as f:
            f.write("nodes:\n  - devices: [{count: 2}]\n")
        found = run_rounds(args, names, folder)
    table = {group: [row_of(row[0], found[group, i], found[group, 0]) for i, row in enumerate(GROUPS[group])]
             for group in names}
    if args.json:
        print(json.dumps(table))
    else:
        (markdown if args.markdown else show)(table)


if __name__ == "__main__":
    main()
