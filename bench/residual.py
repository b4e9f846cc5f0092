#!/usr/bin/env python3
"""What 16 bits cost a GPT in depth, and what a residual stream of fp32 gives back: the same steps in fp32, in 16 bits,
and in 16 bits with train.residual: fp32, from the same weights and batches.

    bench/residual.py [--precision bf16|fp16] [--layers N] [--channels N] [--context N] [--batch N] [--steps N]
                      [--seeds N] [FILE ...]

Prints, per seed, how far the first gradient is from that of fp32 (relative, all parameters), and by how much the mean
loss of the last tenth of the steps differs. A first gradient is what one step of SGD leaves as momentum in its
checkpoint. FILE: texts, by default the documents of this project. Needs ./dev build."""

import argparse
import array
import glob
import json
import math
import os
import struct
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import contenders  # pylint: disable=wrong-import-position
import needs  # pylint: disable=wrong-import-position

RUN = """name: run
model: {{kind: gpt, layers: {layers}, heads: {heads}, channels: {channels}, context: {context}}}
data: {{kind: text, paths: {paths}, validation: 0}}
train: {{steps: {steps}, batch: {batch}, micro_batch: {batch}, lr: 1.0e-3, warmup: 20, decay: none, clip: 0, beta2: 0.99,
        weight_decay: 0, loss_scale: {scale}}}
checkpoint: {{every: 0}}
"""
FIRST = ("train.steps=1", "train.warmup=0", "train.optimizer=sgd", "train.lr=1e-9")


def train(folder, args, *overrides):
    """The losses of its steps, and what its last checkpoint has, by name."""
    path = os.path.join(folder, "run.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(RUN.format(heads=max(1, args.channels // 32), paths=json.dumps([os.path.abspath(p) for p in args.file]),
                           scale=1024 if args.precision == "fp16" else 1, **vars(args)))
    runs = tempfile.mkdtemp(dir=folder)
    contenders.output_of([needs.PENSTOCK, "train", path, "--runs", runs, "--quiet", "-n", "1", *overrides])
    with open(os.path.join(runs, "run", "metrics.jsonl"), encoding="utf-8") as f:
        losses = [line["loss"] for line in map(json.loads, f) if "event" not in line]
    with open(glob.glob(os.path.join(runs, "run", "checkpoints", "step-*", "rank-*"))[0], "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        entries, data = json.loads(f.read(size)), f.read()
    return losses, {name: array.array("f", data[slice(*e["data_offsets"])]) for name, e in entries.items()
                    if name != "__metadata__"}


def gradient(folder, args, *overrides):
    """Of the first batch, all parameters one after the other."""
    _, entries = train(folder, args, *FIRST, *overrides)
    return [x for name in sorted(entries) if name.endswith(".momentum") for x in entries[name]]


def apart(x, exact):
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(x, exact)) / sum(b * b for b in exact))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precision", default="bf16", choices=("bf16", "fp16"))
    for name, fallback in (("layers", 12), ("channels", 64), ("context", 64), ("batch", 2), ("steps", 80), ("seeds", 3)):
        parser.add_argument("--" + name, type=int, default=fallback)
    parser.add_argument("file", nargs="*", default=sorted(glob.glob(os.path.join(needs.HERE, "..", "docs", "*.md"))))
    args = parser.parse_args()
    needs.check()
    forms = (("fp32", ("precision=fp32",)), (args.precision, (f"precision={args.precision}",)),
             (f"{args.precision}, stream in fp32", (f"precision={args.precision}", "train.residual=fp32")))
    for seed in range(1, args.seeds + 1):
        exact = exact_loss = None
        for what, overrides in forms:
            with tempfile.TemporaryDirectory(dir=contenders.folder_for_runs()) as folder:
                given = (*overrides, f"train.seed={seed}")
                losses, _ = train(folder, args, *given)
                first = gradient(folder, args, *given)
            last = losses[-max(1, args.steps // 10):]
            loss = sum(last) / len(last)
            exact, exact_loss = exact or first, exact_loss or loss
            print(f"layers {args.layers} seed {seed} {what:20} loss {loss:.4f}  more than fp32 {loss - exact_loss:+.4f}  "
                  f"gradient apart {apart(first, exact):.5f}", flush=True)


if __name__ == "__main__":
    main()
