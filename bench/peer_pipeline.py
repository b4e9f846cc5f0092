#!/usr/bin/env python3
"""Peer: a full training step of GPT-2 on a two-stage 1F1B pipeline of PyTorch (torch.distributed.pipelining over gloo),
two processes of one thread.

    peer_pipeline.py [--preset gpt2|six] [-T 128] [--micro-batches 8] [--split 6] [--steps 3] [--tuned] [--json]

Micro-batches of one sample. --split: layers of the first stage, half of them by default; the last stage has the head,
too, so 8 of 12 is about even. The tied embedding is on both stages, its gradients are summed, and clipping uses the
norm over both: the same training as ours. --tuned: glibc's malloc as bench/peer_torch.py tunes it. Prints the median of
the steps after the warm-up, tokens/s, and the peak resident memory of both processes."""

import argparse
import json
import os
import resource
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "tests", "parity")]
import gloo  # pylint: disable=wrong-import-position
from peer_torch import PRESETS, TUNED  # pylint: disable=wrong-import-position


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--preset", choices=PRESETS, default="gpt2")
    p.add_argument("-T", "--context", type=int, default=128)
    p.add_argument("--micro-batches", type=int, default=8)
    p.add_argument("--split", type=int, default=0, help="layers of the first stage; 0: half of them")
    p.add_argument("--warmup", type=int, default=1)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--tuned", action="store_true")
    p.add_argument("--json", action="store_true")
    return p.parse_args()


def build_stage(size, args, rank):
    import torch
    import torch.nn.functional as F
    from gpt2 import GPT2, random_weights

    split = args.split or size["layers"] // 2
    layers = range(split) if rank == 0 else range(split, size["layers"])
    weights = random_weights(size["layers"], size["channels"], args.context, size["vocabulary"], seed=1)
    outer = ("wte", "wpe") if rank == 0 else ("wte", "ln_f")
    mine = {name: w for name, w in weights.items()
            if name.startswith(outer) or any(name.startswith(f"h.{i}.") for i in layers)}

    class Stage(GPT2):
        def forward(self, x):
            if rank == 0:
                x = F.embedding(x, self.weight("wte.weight")) + self.weight("wpe.weight")[:x.shape[1]]
            for i in layers:
                x = x + self.attention(self.layer_norm(x, f"h.{i}.ln_1"), f"h.{i}.attn")
                x = x + self.mlp(self.layer_norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp")
            return x if rank == 0 else self.layer_norm(x, "ln_f") @ self.weight("wte.weight").t()

    return Stage(mine, len(layers), size["heads"]), torch


def clip(torch, dist, model, rank, limit=1.0):
    """By the norm over both stages; the shared embedding counts once, with the sum of its gradients."""
    shared = model.weight("wte.weight")
    dist.all_reduce(shared.grad)
    own = [p.grad for p in model.parameters() if rank == 0 or p is not shared]
    squares = sum(torch.linalg.vector_norm(g) ** 2 for g in own)
    dist.all_reduce(squares)
    factor = min(1.0, limit / (float(squares) ** 0.5 + 1e-6))
    if factor < 1:
        for p in model.parameters():
            p.grad.mul_(factor)


def run_rank(args, rank):
    size = PRESETS[args.preset]
    model, torch = build_stage(size, args, rank)
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    optimizer = model.optimizer(3e-4, 0.1, fused=True)
    stage = PipelineStage(model, rank, 2, torch.device("cpu"))

    def loss_fn(logits, targets):
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    schedule = Schedule1F1B(stage, args.micro_batches, loss_fn=loss_fn)
    g = torch.Generator().manual_seed(2)
    words = torch.randint(0, size["vocabulary"], (args.micro_batches, args.context + 1), generator=g)
    tokens, targets = words[:, :-1].contiguous(), words[:, 1:].contiguous()
    times, losses = [], []
    for _ in range(args.warmup + args.steps):
        dist.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=False)
        if rank == 0:
            schedule.step(tokens, return_outputs=False)
        else:
            losses = []
            schedule.step(target=targets, losses=losses, return_outputs=False)
        clip(torch, dist, model, rank)
        optimizer.step()
        dist.barrier()
        times.append(time.perf_counter() - begin)
    peak = torch.tensor([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024])
    dist.all_reduce(peak)
    if rank == 1:
        print(json.dumps({"times": times[args.warmup:], "peak_mib": float(peak), "version": torch.__version__,
                          "loss": sum(loss.item() for loss in losses) / len(losses)}))
    dist.destroy_process_group()


def main():
    args = arguments()
    if gloo.own_rank() is not None:
        run_rank(args, gloo.own_rank())
        return
    result = gloo.start(2, 1, "a rank of PyTorch's pipeline", TUNED if args.tuned else {})
    median = statistics.median(result["times"])
    rate = args.micro_batches * args.context / median
    if args.json:
        print(json.dumps({"version": result["version"], "step_ms": median * 1e3, "tokens_per_s": rate,
                          "peak_mib": result["peak_mib"], "loss": result["loss"]}))
        return
    print(f"torch {result['version']} 1F1B over gloo, {args.preset}, T={args.context}, "
          f"{args.micro_batches} micro-batches, "
          f"2 x 1 thread: {median * 1e3:.1f} ms/step, {rate:.0f} tok/s, peak {result['peak_mib']:.0f} MiB of both")


if __name__ == "__main__":
    main()
