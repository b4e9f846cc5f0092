#!/usr/bin/env python3
"""Peer: the matrix products of a training step in PyTorch, on CPU threads.

    peer_products.py [--precision fp32|bf16] [--threads 2] [--seconds 0.3] [--json] [MxKxN ...]

MxKxN is a linear operator with M rows, K inputs and N outputs; by default those of GPT-2 124M. Measured are its forward
pass F (x w^T), the gradient of the inputs B (dy w) and of the weights W (dy^T x), each written to memory that is there
already, which is PyTorch's fastest way. Each is repeated for --seconds, at least three times; the median counts: of the
CPU time with one thread, as `penstock bench kernels` has it, else of the wall clock."""

import argparse
import json
import statistics
import time

import forms


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("shapes", nargs="*", metavar="MxKxN")
    p.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seconds", type=float, default=0.3)
    p.add_argument("--json", action="store_true")
    p.set_defaults(flush_denormal=False)
    return p.parse_args()


def seconds_of(function, args):
    """The median duration; the first call, in which memory is touched, does not count."""
    clock = time.process_time if args.threads == 1 else time.perf_counter
    function()
    times, end = [], time.perf_counter() + args.seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = clock()
        function()
        times.append(clock() - begin)
    return statistics.median(times)


def measure(torch, shape, args):
    """{pass: seconds}"""
    m, k, n = (int(x) for x in shape.split("x"))
    dtype = torch.float32 if args.precision == "fp32" else torch.bfloat16
    x, w, dy = (torch.randn(size, dtype=dtype) for size in ((m, k), (n, k), (m, n)))
    y, dx, dw = (torch.empty(size, dtype=dtype) for size in ((m, n), (m, k), (n, k)))
    passes = {"F": lambda: torch.mm(x, w.t(), out=y), "B": lambda: torch.mm(dy, w, out=dx),
              "W": lambda: torch.mm(dy.t(), x, out=dw)}
    return {name: seconds_of(function, args) for name, function in passes.items()}


def main():
    args = arguments()
    torch = forms.load(args, args.threads)
    with torch.no_grad():
        found = {shape: measure(torch, shape, args) for shape in args.shapes or forms.PRODUCTS}
    if args.json:
        print(json.dumps({"version": torch.__version__, "shapes": found}))
        return
    for shape, passes in found.items():
        m, k, n = (int(x) for x in shape.split("x"))
        rates = ", ".join(f"{name} {2e-9 * m * k * n / s:.0f}" for name, s in passes.items())
        print(f"torch {torch.__version__} {args.precision}, {args.threads} threads, {shape}: {rates} GFLOP/s")


if __name__ == "__main__":
    main()
