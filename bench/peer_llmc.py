#!/usr/bin/env python3
"""Peer: training steps of GPT-2 124M in llm.c (github.com/karpathy/llm.c) on the CPU.

    peer_llmc.py --llmc FOLDER [-B 4] [-T 256] [--threads 2] [--steps 5] [--work DIR] [--json]

FOLDER is a checkout of it; nothing in there is changed. Its train_gpt2.c has sizes and lengths as constants, so a copy
is built in DIR (a temporary folder by default; kept and used again when given) with its own Makefile and these changes,
all outside of what it times: B and T; no validation batches instead of five; `--steps` steps after the first instead of
40. Weights are random, in its file format: speed does not depend on them. Prints the median of what it says each step
but the first took, tokens/s, and its peak resident memory."""

import argparse
import array
import json
import os
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile

LAYERS, HEADS, C, MAX_T, V, PADDED_V = 12, 12, 768, 1024, 50257, 50304
CHANGES = [(r"int B = 4;", "int B = {B};"), (r"int T = 64;", "int T = {T};"),
           (r"int val_num_batches = 5;", "int val_num_batches = 0;"), (r"step <= 40;", "step <= {steps};")]


def build(source, folder, args):
    """The path of train_gpt2 with the constants asked for."""
    name = f"b{args.batch}-t{args.context}-s{args.steps}"
    place = os.path.join(folder, name)
    program = os.path.join(place, "train_gpt2")
    if os.path.exists(program):
        return program
    os.makedirs(place, exist_ok=True)
    shutil.copytree(os.path.join(source, "llmc"), os.path.join(place, "llmc"), dirs_exist_ok=True)
    shutil.copy(os.path.join(source, "Makefile"), place)
    with open(os.path.join(source, "train_gpt2.c"), encoding="utf-8") as f:
        text = f.read()
    for old, new in CHANGES:
        if text.count(old) != 1:
            raise SystemExit(f"{source}/train_gpt2.c: '{old}' is not there once: "
                             "another version than this was made for")
        text = text.replace(old, new.format(B=args.batch, T=args.context, steps=args.steps))
    with open(os.path.join(place, "train_gpt2.c"), "w", encoding="utf-8") as f:
        f.write(text)
    made = subprocess.run(["make", "train_gpt2"], cwd=place, capture_output=True, text=True, check=False)
    if made.returncode or not os.path.exists(program):
        raise SystemExit(f"llm.c was not built: {made.stdout[-500:]}{made.stderr[-500:]}")
    return program


def write_header(f, words):
    f.write(struct.pack("<256i", *(words + [0] * (256 - len(words)))))


def write_model(path):
    noise = array.array("f", (random.Random(1).gauss(0, 0.02) for _ in range(65537))).tobytes()
    ones, zeros = struct.pack("<f", 1), bytes(4)
    sizes = [(PADDED_V * C, noise), (MAX_T * C, noise), (LAYERS * C, ones), (LAYERS * C, zeros),
             (LAYERS * 3 * C * C, noise), (LAYERS * 3 * C, zeros), (LAYERS * C * C, noise), (LAYERS * C, zeros),
             (LAYERS * C, ones), (LAYERS * C, zeros), (LAYERS * 4 * C * C, noise), (LAYERS * 4 * C, zeros),
             (LAYERS * 4 * C * C, noise), (LAYERS * C, zeros), (C, ones), (C, zeros)]
    with open(path + ".new", "wb") as f:
        write_header(f, [20240326, 3, MAX_T, V, LAYERS, HEADS, C, PADDED_V])
        for count, pattern in sizes:
            f.write((pattern * (count * 4 // len(pattern) + 1))[:count * 4])
    os.rename(path + ".new", path)


def write_tokens(path, count):
    draw = random.Random(2)
    with open(path, "wb") as f:
        write_header(f, [20240520, 1, count])
        f.write(array.array("H", (draw.randrange(V) for _ in range(count))).tobytes())


def write_inputs(folder, args):
    """Where train_gpt2 looks for them, below its current folder."""
    data = os.path.join(folder, "dev", "data", "tinyshakespeare")
    os.makedirs(data, exist_ok=True)
    for name in ("train", "val"):
        write_tokens(os.path.join(data, f"tiny_shakespeare_{name}.bin"), max(20000, 16 * args.batch * args.context + 1))
    model = os.path.join(folder, "gpt2_124M.bin")
    if not os.path.exists(model):
        write_model(model)


def run(program, folder, args):
    child = subprocess.Popen([program], cwd=folder, stdout=subprocess.PIPE, text=True, errors="replace",
                             env={**os.environ, "OMP_NUM_THREADS": str(args.threads)})
    out = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    times = [float(x) for x in re.findall(r"^step [0-9]+: .*\(took ([0-9.]+) ms\)", out, re.M)]
    if status or len(times) != args.steps + 1:
        raise SystemExit(f"llm.c ended with status {status}: {out[-500:]}")
    return times[1:], usage.ru_maxrss / 1024


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--llmc", default=os.environ.get("LLMC"), help="a checkout of llm.c; $LLMC by default")
    p.add_argument("-B", "--batch", type=int, default=4)
    p.add_argument("-T", "--context", type=int, default=256)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--steps", type=int, default=5, help="steps after the first")
    p.add_argument("--work", help="folder for the build and its input files (half a gigabyte)")
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    if not args.llmc or not os.path.exists(os.path.join(args.llmc, "train_gpt2.c")):
        raise SystemExit("peer_llmc.py: needs a checkout of github.com/karpathy/llm.c: --llmc FOLDER")
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.work or temporary
        program = build(args.llmc, folder, args)
        write_inputs(folder, args)
        times, peak = run(program, folder, args)
    median = statistics.median(times)
    rate = args.batch * args.context / median * 1e3
    if args.json:
        print(json.dumps({"step_ms": median, "tokens_per_s": rate, "peak_mib": peak}))
        return
    print(f"llm.c gpt2 B={args.batch} T={args.context} threads={args.threads}: {median:.1f} ms/step "
          f"(min {min(times):.1f}, "
          f"max {max(times):.1f}), {rate:.0f} tok/s, peak {peak:.0f} MiB")


if __name__ == "__main__":
    sys.exit(main())
