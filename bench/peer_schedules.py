#!/usr/bin/env python3
"""Peer: the schedules of torch.distributed.pipelining, over gloo, with stages that compute nothing: a forward sleeps
for F, the gradient of the input for B, that of the weights for W, and messages are as large as asked for. One process a
rank.

    peer_schedules.py [--schedule 1f1b|interleaved|zb-v] [--stages 2] [--micro-batches 8] [--times 5,5,5]
                      [--message 65536]
                      [--laps 3] [--json]

Prints the makespan of a step, as the longest rank has it: the median of the laps after the first. A rank's F, B and W
are those of a stage; with two chunks on a rank (interleaved, zb-v) each has half. Of these schedules PyTorch splits B
from W in zb-v only."""

import argparse
import json
import statistics
import time

import forms
import gloo

CHUNKS = {"1f1b": 1, "interleaved": 2, "zb-v": 2}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--schedule", choices=CHUNKS, default="1f1b")
    p.add_argument("--stages", type=int, default=2)
    p.add_argument("--micro-batches", type=int, default=8)
    p.add_argument("--times", default="5,5,5", help="milliseconds of F, B, W of a stage")
    p.add_argument("--message", type=int, default=65536)
    p.add_argument("--laps", type=int, default=3)
    p.add_argument("--json", action="store_true")
    return p.parse_args()


def build_stage(seconds):
    """The identity, as a sum of two nodes of the graph, so that autograd can be asked for the gradient of either alone:
    that of the input takes B, that of the weight W."""
    import torch

    class Input(torch.autograd.Function):
        @staticmethod
        def forward(_ctx, x):
            time.sleep(seconds[0])
            return x.clone()

        @staticmethod
        def backward(_ctx, grad):
            time.sleep(seconds[1])
            return grad

    class Weight(torch.autograd.Function):
        @staticmethod
        def forward(_ctx, weight):
            return weight.clone()

        @staticmethod
        def backward(_ctx, grad):
            time.sleep(seconds[2])
            return grad

    class Stage(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return Input.apply(x) + Weight.apply(self.weight)

    return Stage()


def run_rank(args, rank):
    torch = forms.torch_or_exit()
    import torch.distributed as dist
    from torch.distributed import pipelining as pp
    from torch.distributed.pipelining import schedules

    torch.set_num_threads(1)
    p, chunks = args.stages, CHUNKS[args.schedule]
    seconds = [float(t) * 1e-3 / chunks for t in args.times.split(",")]
    numbers = max(1, args.message // 4)
    dist.init_process_group("gloo", rank=rank, world_size=p)
    mine = [rank] if chunks == 1 else [rank, 2 * p - 1 - rank] if args.schedule == "zb-v" else [rank, p + rank]
    stages = [pp.PipelineStage(build_stage(seconds), i, p * chunks, torch.device("cpu")) for i in mine]

    def loss_fn(out, target):
        return ((out - target) * 0).sum()

    if args.schedule == "1f1b":
        schedule = schedules.Schedule1F1B(stages[0], args.micro_batches, loss_fn=loss_fn)
    else:
        kind = schedules.ScheduleZBVZeroBubble if args.schedule == "zb-v" else schedules.ScheduleInterleaved1F1B
        schedule = kind(stages, args.micro_batches, loss_fn=loss_fn)
    data = torch.zeros(args.micro_batches, numbers)
    makespans = []
    for _ in range(args.laps + 1):
        dist.barrier()
        begin = time.perf_counter()
        words = {"target": data} if p * chunks - 1 in mine else {}
        schedule.step(*([data] if rank == 0 else []), **words)
        took = torch.tensor([time.perf_counter() - begin])
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        makespans.append(float(took))
    if rank == 0:
        print(json.dumps({"schedule": args.schedule, "stages": p, "makespans_ms": [1e3 * t for t in makespans[1:]],
                          "version": torch.__version__}))
    gloo.finish(dist)


def main():
    args = arguments()
    if gloo.own_rank() is not None:
        run_rank(args, gloo.own_rank())
        return
    result = gloo.start(args.stages, 0, f"a rank of PyTorch's pipeline ({args.schedule}, {args.stages} stages)")
    if args.json:
        print(json.dumps(result))
        return
    print(f"torch {result['version']} {args.schedule}, {args.stages} stages, {args.micro_batches} micro-batches: "
          f"{statistics.median(result['makespans_ms']):.1f} ms")


if __name__ == "__main__":
    main()
