#!/usr/bin/env python3
"""Peer: a full training step of GPT-2 on a pipeline of two ranks of PyTorch (torch.distributed.pipelining over gloo),
two processes of one thread.

    peer_pipeline.py [--schedule 1f1b|zb-v|dualpipev] [--preset gpt2|six] [-T 128] [--micro-batches 8] [--cut N,...]
                     [--mode eager|compile] [--tuned|--plain] [--steps 5] [--warmup 3] [--flush-denormal] [--json]

Micro-batches of one sample. --cut: layers of each stage: two stages of 1f1b, four of zb-v and dualpipev, of which rank
0 has the first and the last. The last stage has the head, too, which is worth five layers of the 12 of GPT-2: by
default its cut is about even with that. The tied embedding of 1f1b is on both ranks, its gradients are summed, and
clipping uses the norm over both ranks: the same training as ours. zb-v and dualpipev separate the gradients of weights,
which needs autograd's own graph: they are not compiled. --tuned: glibc's malloc as bench/forms.py tunes it. Prints the median of
the timed steps, tokens/s, and the peak resident memory of both processes."""

import argparse
import json
import os
import resource
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "tests", "parity")]
import forms  # pylint: disable=wrong-import-position
import gloo  # pylint: disable=wrong-import-position

# The stages of both ranks, and layers of the stages of 12 and of 6 layers
SCHEDULES = {"1f1b": ([[0], [1]], {12: [8, 4], 6: [3, 3]}),
             "zb-v": ([[0, 3], [1, 2]], {12: [3, 4, 5, 0], 6: [2, 1, 2, 1]}),
             "dualpipev": ([[0, 3], [1, 2]], {12: [3, 4, 5, 0], 6: [2, 1, 2, 1]})}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    forms.add_options(p, tuned=False)
    p.add_argument("--schedule", choices=SCHEDULES, default="1f1b")
    p.add_argument("-T", "--context", type=int, default=128)
    p.add_argument("--micro-batches", type=int, default=8)
    p.add_argument("--cut", help="layers of each stage, separated by commas")
    args = p.parse_args()
    layers = forms.PRESETS[args.preset]["layers"]
    ranks, cuts = SCHEDULES[args.schedule]
    count = sum(len(stages) for stages in ranks)
    even = [layers // count] * (count - 1)
    args.cut = [int(n) for n in args.cut.split(",")] if args.cut else cuts.get(layers, even + [layers - sum(even)])
    if len(args.cut) != count or sum(args.cut) != layers or min(args.cut) < 0:
        p.error(f"--cut: expected {count} numbers that add up to {layers}")
    if args.mode == "compile" and args.schedule != "1f1b":
        p.error(f"--mode compile: not with --schedule {args.schedule}")
    return args


def build_stages(size, args, rank):
    """The modules of a rank, with one tied embedding, and their numbers."""
    import torch.nn.functional as F
    from gpt2 import GPT2, random_weights

    weights = random_weights(size["layers"], size["channels"], args.context, size["vocabulary"], seed=1)
    last = len(args.cut) - 1

    class Stage(GPT2):
        def __init__(self, number):
            self.number, begin = number, sum(args.cut[:number])
            self.own = range(begin, begin + args.cut[number])
            outer = (("wte", "wpe") if number == 0 else ()) + (("wte", "ln_f") if number == last else ())
            names = tuple(f"h.{i}." for i in self.own) + outer
            super().__init__({name: w for name, w in weights.items() if names and name.startswith(names)},
                             len(self.own), size["heads"])

        def forward(self, x):
            if self.number == 0:
                x = F.embedding(x, self.weight("wte.weight")) + self.weight("wpe.weight")[:x.shape[1]]
            for i in self.own:
                x = x + self.attention(self.layer_norm(x, f"h.{i}.ln_1"), f"h.{i}.attn")
                x = x + self.mlp(self.layer_norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp")
            return self.head(x) if self.number == last else x

    numbers = SCHEDULES[args.schedule][0][rank]
    stages = [Stage(number) for number in numbers]
    if numbers[0] == 0 and numbers[-1] == last:
        stages[-1].register_parameter("wte/weight", stages[0].weight("wte.weight"))
    return stages, numbers


def clip(torch, dist, model, rank, limit=1.0):
    """By the norm over both ranks. A tied embedding on both counts once, with the sum of its gradients. model: all
    stages of this rank."""
    shared = model[0].weight("wte.weight") if len(model) == 1 else None
    if shared is not None:
        dist.all_reduce(shared.grad)
    own = [p.grad for p in model.parameters() if rank == 0 or p is not shared]
    squares = sum(torch.linalg.vector_norm(g) ** 2 for g in own)
    dist.all_reduce(squares)
    factor = min(1.0, limit / (float(squares) ** 0.5 + 1e-6))
    if factor < 1:
        for p in model.parameters():
            p.grad.mul_(factor)


def schedule_of(args, torch, modules, numbers):
    """The mean over micro-batches is in the loss: a schedule that scales gradients does so once for every stage that has
    them, and the tied embedding may be on two."""
    from torch.distributed import pipelining as pp

    def loss_fn(logits, targets):
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()) / args.micro_batches

    stages = [pp.PipelineStage(module, number, len(args.cut), torch.device("cpu"))
              for module, number in zip(modules, numbers)]
    if args.schedule == "1f1b":
        return pp.Schedule1F1B(stages[0], args.micro_batches, loss_fn=loss_fn, scale_grads=False)
    kind = pp.ScheduleZBVZeroBubble if args.schedule == "zb-v" else pp.ScheduleDualPipeV
    return kind(stages, args.micro_batches, loss_fn=loss_fn, scale_grads=False)


def run_rank(args, rank):
    size = forms.PRESETS[args.preset]
    torch = forms.load(args, 1)
    import torch.distributed as dist

    modules, numbers = build_stages(size, args, rank)
    model = torch.nn.ModuleList(modules)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    optimizer = modules[0].optimizer(3e-4, 0.1, of=model, fused=True)
    compiler = forms.Compiler(args)
    for module in modules:
        compiler.apply(module)
    schedule = schedule_of(args, torch, modules, numbers)
    g = torch.Generator().manual_seed(2)
    words = torch.randint(0, size["vocabulary"], (args.micro_batches, args.context + 1), generator=g)
    tokens, targets = words[:, :-1].contiguous(), words[:, 1:].contiguous()
    has_loss = numbers[-1] == len(args.cut) - 1
    times, losses = [], []
    for step in range(args.warmup + args.steps):
        if step == args.warmup:
            compiler.warm()
        dist.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        losses = []
        of_last = {"target": targets, "losses": losses} if has_loss else {}
        schedule.step(*([tokens] if rank == 0 else []), return_outputs=False, **of_last)
        clip(torch, dist, model, rank)
        optimizer.step()
        dist.barrier()
        times.append(time.perf_counter() - begin)
    compiler.check()
    found = torch.tensor([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                          sum(loss.item() for loss in losses)])
    dist.all_reduce(found)
    if rank == 1:
        print(json.dumps({"times": times[args.warmup:], "peak_mib": float(found[0]), "version": torch.__version__,
                          "loss": float(found[1])}))
    gloo.finish(dist)


def main():
    args = arguments()
    if gloo.own_rank() is not None:
        run_rank(args, gloo.own_rank())
        return
    result = gloo.start(2, 1, "a rank of PyTorch's pipeline", forms.environment(args))
    median = statistics.median(result["times"])
    rate = args.micro_batches * args.context / median
    if args.json:
        print(json.dumps({"version": result["version"], "schedule": args.schedule, "cut": args.cut, **forms.form(args),
                          "step_ms": median * 1e3, "tokens_per_s": rate, "peak_mib": result["peak_mib"],
                          "loss": result["loss"]}))
        return
    print(f"torch {result['version']} {args.schedule} over gloo, {forms.described(args)}, {args.preset} "
          f"cut {args.cut}, T={args.context}, {args.micro_batches} micro-batches, 2 x 1 thread: {median * 1e3:.1f} ms/step, "
          f"{rate:.0f} tok/s, loss {result['loss']:.3f}, peak {result['peak_mib']:.0f} MiB of both")


if __name__ == "__main__":
    main()
