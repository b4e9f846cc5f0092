#!/usr/bin/env python3
"""Peer: a full training step of GPT-2 on two replicas of PyTorch (DistributedDataParallel over gloo), two processes of
one thread.

    peer_ddp.py [--preset gpt2|nano|six] [-B 8] [-T 128] [--micro M] [--mode eager|compile] [--tuned|--plain]
                [--steps 5] [--warmup 3] [--flush-denormal] [--json] [--hook fp16|powersgd]
                [--hosts NAMESPACE=ADDRESS,NAMESPACE=ADDRESS]

-B: samples per step of both replicas; --micro: samples per micro-batch, all of a replica's by default; gradients are
exchanged in the last backward pass, as is usual. --tuned: glibc's malloc as bench/forms.py tunes it. Prints the median
of the timed steps, tokens/s, and the peak resident memory of both processes. --hook: PyTorch's communication hook:
gradients in fp16, or PowerSGD of rank 4 from the third step on. --hosts: two network namespaces, as of hosts.py."""

import argparse
import contextlib
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

RANKS = 2


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    forms.add_options(p, tuned=False)
    p.add_argument("-B", "--batch", type=int, default=8)
    p.add_argument("-T", "--context", type=int, default=128)
    p.add_argument("--micro", type=int, default=0)
    p.add_argument("--hook", choices=("fp16", "powersgd"))
    p.add_argument("--hosts", type=lambda text: [tuple(host.split("=")) for host in text.split(",")])
    args = p.parse_args()
    args.micro = args.micro or args.batch // RANKS
    if args.batch % (RANKS * args.micro):
        p.error(f"-B {args.batch} is no multiple of {RANKS} micro-batches of {args.micro}")
    return args


def register(replica, hook):
    """Makes DistributedDataParallel send gradients by one of PyTorch's own hooks."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook as powersgd

    if hook == "fp16":
        replica.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif hook == "powersgd":
        state = powersgd.PowerSGDState(process_group=None, matrix_approximation_rank=4, start_powerSGD_iter=2)
        replica.register_comm_hook(state, powersgd.powerSGD_hook)


def run_rank(args, rank):
    torch = forms.load(args, 1)
    import torch.distributed as dist
    from gpt2 import GPT2, random_weights

    size = forms.PRESETS[args.preset]
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    weights = random_weights(size["layers"], size["channels"], args.context, size["vocabulary"], seed=1)
    model = GPT2(weights, size["layers"], size["heads"])
    optimizer = model.optimizer(3e-4, 0.1, fused=True)
    # PowerSGD's hook begins its second all-reduce when the first one ends, so that those of several buckets have other
    # orders on other ranks, in which gloo adds messages of different sizes and fails, or waits for ever: one bucket.
    buckets = {"bucket_cap_mb": 1 << 20} if args.hook == "powersgd" else {}
    replica = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, **buckets)  # spares a copy
    register(replica, args.hook)
    compiler = forms.Compiler(args)
    compiler.apply(replica)
    g = torch.Generator().manual_seed(2)
    words = torch.randint(0, size["vocabulary"], (args.batch, args.context + 1), generator=g)
    own = words[rank * (args.batch // RANKS):(rank + 1) * (args.batch // RANKS)]
    tokens, targets = own[:, :-1].contiguous(), own[:, 1:].contiguous()
    times, total = [], torch.zeros(())
    for step in range(args.warmup + args.steps):
        if step == args.warmup:
            compiler.warm()
        dist.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        total = torch.zeros(())
        for i in range(0, len(own), args.micro):
            last = i + args.micro >= len(own)
            with contextlib.nullcontext() if last else replica.no_sync():
                loss = replica(tokens[i:i + args.micro], targets[i:i + args.micro]) * (args.micro / len(own))
                loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        dist.barrier()
        times.append(time.perf_counter() - begin)
    compiler.check()
    found = torch.tensor([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, float(total) / RANKS])
    dist.all_reduce(found)
    if rank == 0:
        print(json.dumps({"times": times[args.warmup:], "peak_mib": float(found[0]), "version": torch.__version__,
                          "loss": float(found[1])}))
    gloo.finish(dist)


def main():
    args = arguments()
    if gloo.own_rank() is not None:
        run_rank(args, gloo.own_rank())
        return
    result = gloo.start(RANKS, 0, "a replica of PyTorch", forms.environment(args), args.hosts)
    median = statistics.median(result["times"])
    rate = args.batch * args.context / median
    if args.json:
        print(json.dumps({"version": result["version"], **forms.form(args), "step_ms": median * 1e3,
                          "tokens_per_s": rate, "peak_mib": result["peak_mib"], "loss": result["loss"]}))
        return
    print(f"torch {result['version']} DDP over gloo, {forms.described(args)}, {args.preset}, B={args.batch} "
          f"T={args.context} micro={args.micro}, 2 x 1 thread: {median * 1e3:.1f} ms/step, {rate:.0f} tok/s, "
          f"loss {result['loss']:.3f}, peak {result['peak_mib']:.0f} MiB of both")


if __name__ == "__main__":
    main()
