#!/usr/bin/env python3
"""Packing and unpacking with each codec on one core, beside what the memory bandwidth allows.

    bench/codecs.py [--isa avx512|avx2|generic] [--rounds N] [--codec NAME ...] [--json]

Each round measures y += x, packing and unpacking with addition of 16 Mi elements (bench/codecs.c, CPU time). The share is
the time that the bandwidth of y += x in the same run would take for the bytes that must be moved, over the time measured:
medians of all rounds. Bytes per element without the message: packing reads gradient and residual and writes the residual,
12 (topk-steps also reads and writes second moments, 20); unpacking reads and writes the sum, 8 (topk: the lines of 10
elements in 1,024, 1.3). powersgd: rank 4, 768 columns, with two power iterations, and with one. Needs ./dev build and a C compiler."""

import argparse
import glob
import json
import os
import statistics
import subprocess
import tempfile

import needs
from needs import PENSTOCK

BYTES = {"int8": (12, 8, 1 + 4 / 256), "int4": (12, 8, 0.5 + 4 / 128), "2bit": (12, 8, 0.25 + 4 / 256),
         "topk": (12, 1.25, 60 / 1024), "topk-steps": (20, 1.25, 60 / 1024), "bf16": (12, 8, 2), "powersgd": (12, 8, 0),
         "powersgd-1": (12, 8, 0)}


def compile_program(folder):
    root, libraries = os.path.join(needs.HERE, ".."), os.path.dirname(PENSTOCK)
    program = os.path.join(folder, "codecs")
    archives = [os.path.join(libraries, f"libpst_{name}.a")
                for name in ("kernels_cpu", "kernels", "kernels_ref", "graph", "base")]
    others = [path for name in ("libxxhash.so*", "libdnnl.so*") for path in shared(name)[:1]]
    includes = ["-I" + os.path.join(root, folder) for folder in ("src", "include", "")]
    subprocess.run(["cc", "-O2", "-fopenmp", "-std=gnu17", "-D_GNU_SOURCE", *includes, os.path.join(needs.HERE, "codecs.c"),
                    "-Wl,--start-group", *archives, "-Wl,--end-group", *others, "-lm", "-o", program], check=True)
    return program


def shared(name):
    return sorted(path for folder in ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")
                  for path in glob.glob(os.path.join(folder, name)))


def measure(program, args):
    """Instruction set; per codec, a list of (seconds of y += x, of packing, of unpacking)."""
    environment = dict(os.environ, **({"PENSTOCK_ISA": args.isa} if args.isa else {}))
    lines = subprocess.run([program, str(args.rounds), *args.codec], env=environment, capture_output=True, text=True,
                           check=True).stdout.splitlines()
    times = {}
    for line in lines[1:]:
        name, *seconds = line.split()
        times.setdefault(name, []).append([float(s) for s in seconds])
    return lines[0], times


def row(name, rounds, n=16 << 20):
    add, pack, unpack = (statistics.median(column) for column in zip(*rounds))
    rate = 12 * n / add
    packed, unpacked, message = BYTES[name]
    least = (packed + message) * n / rate, (unpacked + message) * n / rate
    return {"codec": name, "gb_per_s": rate * 1e-9, "pack_ns": pack / n * 1e9, "unpack_ns": unpack / n * 1e9,
            "pack": least[0] / pack, "unpack": least[1] / unpack, "together": sum(least) / (pack + unpack)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--isa", choices=("avx512", "avx2", "generic"))
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--codec", action="append", choices=BYTES, default=[])
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    needs.check(("cc", "gcc"))
    with tempfile.TemporaryDirectory() as folder:
        isa, times = measure(compile_program(folder), args)
    rows = [row(name, rounds) for name, rounds in times.items()]
    if args.json:
        print(json.dumps({"isa": isa, "rows": rows}))
        return
    print(f"{isa}, one core, {args.rounds} rounds; share of what the bandwidth of y += x allows")
    print(f"{'codec':<14} {'GB/s':>6} {'pack ns':>8} {'share':>6} {'unpack':>7} {'share':>6} {'together':>9}")
    for r in rows:
        print(f"{r['codec']:<14} {r['gb_per_s']:6.1f} {r['pack_ns']:8.3f} {r['pack']:6.2f} {r['unpack_ns']:7.3f} "
              f"{r['unpack']:6.2f} {r['together']:9.2f}")


if __name__ == "__main__":
    main()
