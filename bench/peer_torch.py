#!/usr/bin/env python3
"""Peer: a full GPT-2 training step (forward, backward, clipping, fused AdamW) in PyTorch, on the CPU or a GPU.

    peer_torch.py [--preset gpt2|nano|six] [-B 4] [-T 256] [--mode eager|compile] [--threads 2] [--steps 10] [--micro M]
                  [--device cpu|cuda] [--precision fp32|bf16] [--vocabulary N]

Prints the median of the steps after the warm-up steps, tokens/s, and peak resident memory (of a GPU: what was allocated
there). bf16 is autocast over fp32 weights. Fair means tuned: start it
with the allocator settings below (it starts itself again with them unless --plain), which spare PyTorch page faults."""

import argparse
import json
import os
import resource
import statistics
import sys
import time

TUNED = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592", "MALLOC_TOP_PAD_": "67108864",
         "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
PRESETS = {"nano": dict(layers=4, heads=4, channels=128, context=64, vocabulary=256),
           "six": dict(layers=6, heads=6, channels=384, context=256, vocabulary=256),
           "gpt2": dict(layers=12, heads=12, channels=768, context=1024, vocabulary=50257),
           "gpt2-medium": dict(layers=24, heads=16, channels=1024, context=1024, vocabulary=50257),
           "gpt2-xl": dict(layers=48, heads=25, channels=1600, context=1024, vocabulary=50257)}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--preset", choices=PRESETS, default="gpt2")
    p.add_argument("-B", "--batch", type=int, default=4, help="samples per optimizer step")
    p.add_argument("-T", "--context", type=int, default=256)
    p.add_argument("--micro", type=int, default=0, help="samples per micro-batch (gradient accumulation); 0: the batch")
    p.add_argument("--mode", choices=("eager", "compile"), default="eager")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    p.add_argument("--vocabulary", type=int, help="instead of the preset's")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=2, help="steps before those that count")
    p.add_argument("--json", action="store_true")
    p.add_argument("--plain", action="store_true", help="glibc's default allocator settings")
    return p.parse_args()


def main():
    args = arguments()
    if not args.plain and not all(os.environ.get(k) == v for k, v in TUNED.items()):
        os.execve(sys.executable, [sys.executable] + sys.argv, {**os.environ, **TUNED})
    import torch

    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "parity"))
    from gpt2 import GPT2, random_weights

    torch.set_num_threads(args.threads)
    gpu = args.device == "cuda"
    wait = torch.cuda.synchronize if gpu else lambda: None
    autocast = torch.autocast(args.device, torch.bfloat16, enabled=args.precision == "bf16")
    size = {**PRESETS[args.preset], **({"vocabulary": args.vocabulary} if args.vocabulary else {})}
    weights = random_weights(size["layers"], size["channels"], args.context, size["vocabulary"], seed=1)
    model = GPT2(weights, size["layers"], size["heads"]).to(args.device)
    optimizer = model.optimizer(3e-4, 0.1, fused=True)
    step = torch.compile(model) if args.mode == "compile" else model
    micro = args.micro or args.batch
    if args.batch % micro:
        raise SystemExit(f"--micro {micro} does not divide -B {args.batch}")
    g = torch.Generator().manual_seed(2)
    words = torch.randint(0, size["vocabulary"], (args.batch, args.context + 1), generator=g)
    tokens, targets = (part.contiguous().to(args.device) for part in (words[:, :-1], words[:, 1:]))
    times = []
    for _ in range(args.steps + args.warmup):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=False)
        for i in range(0, args.batch, micro):
            with autocast:
                loss = step(tokens[i:i + micro], targets[i:i + micro]) * (micro / args.batch)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        wait()
        times.append(time.perf_counter() - begin)
    times = sorted(times[args.warmup:])
    median = statistics.median(times)
    peak = torch.cuda.max_memory_allocated() / 1048576 if gpu else \
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if args.json:
        print(json.dumps({"version": torch.__version__, "mode": args.mode, "device": args.device,
                          "precision": args.precision, "tuned": not args.plain,
                          "step_ms": median * 1e3,
                          "tokens_per_s": args.batch * args.context / median, "peak_mib": peak}))
        return
    print(f"torch {torch.__version__} {args.mode} {args.device} {args.precision} {args.preset} "
          f"B={args.batch} T={args.context} micro={micro} threads={args.threads}: {median * 1e3:.1f} ms/step "
          f"(min {times[0] * 1e3:.1f}, max {times[-1] * 1e3:.1f}), "
          f"{args.batch * args.context / median:.0f} tok/s, peak {peak:.0f} MiB")


if __name__ == "__main__":
    main()
