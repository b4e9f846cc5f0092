#!/usr/bin/env python3
"""Peer: a full GPT-2 training step (forward, backward, clipping, fused AdamW) in PyTorch, on the CPU or a GPU.

    peer_torch.py [--preset gpt2|nano|six|gpt2-medium|gpt2-xl] [-B 4] [-T 256]
                  [--mode eager|compile|reduce-overhead|max-autotune|max-autotune-no-cudagraphs] [--graph] [--weights fp32|bf16]
                  [--tuned|--plain] [--threads 2] [--steps 5] [--warmup 3] [--micro M] [--device cpu|cuda]
                  [--precision fp32|bf16] [--vocabulary N] [--flush-denormal] [--json]

Prints the median of the timed steps, tokens/s, the losses of the first and the last step, and peak resident memory; of a
GPU what was allocated there, and what of its memory is in use after the last step (cudaMemGetInfo: context, libraries and
graphs included). Steps before the timed ones touch memory and compile; that a timed step compiles nothing is checked. bf16
is autocast over fp32 weights, or with --weights bf16 all of it: weights, gradients and AdamW's moments. --graph: the whole
step is one CUDA graph, captured after the warm-up. By default it starts itself again with glibc's malloc tuned, which
spares PyTorch page faults; --plain leaves it as it is. bench/forms.py says what else is done for it."""

import argparse
import json
import math
import os
import resource
import statistics
import sys
import time

import forms


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    forms.add_options(p, tuned=True)
    p.add_argument("-B", "--batch", type=int, default=4, help="samples per optimizer step")
    p.add_argument("-T", "--context", type=int, default=256)
    p.add_argument("--micro", type=int, default=0, help="samples per micro-batch (gradient accumulation); 0: the batch")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    p.add_argument("--weights", choices=("fp32", "bf16"), default="fp32")
    p.add_argument("--graph", action="store_true", help="the whole step as one CUDA graph")
    p.add_argument("--vocabulary", type=int, help="instead of the preset's")
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args()
    args.micro = args.micro or args.batch
    if args.batch % args.micro:
        p.error(f"--micro {args.micro} does not divide -B {args.batch}")
    if args.graph and args.device != "cuda":
        p.error("--graph needs --device cuda")
    if args.graph and args.mode in forms.OWN_GRAPHS:
        p.error(f"--graph: --mode {args.mode} makes CUDA graphs of its own")
    if args.weights == "bf16" and args.precision != "bf16":
        p.error("--weights bf16 needs --precision bf16")
    return args


def stepper(args, torch, model, tokens, targets):
    """A function that makes a step and returns its loss, on the device."""
    optimizer = model.optimizer(3e-4, 0.1, fused=True, **({"capturable": True} if args.graph else {}))
    autocast = torch.autocast(args.device, torch.bfloat16, enabled=args.precision == "bf16" and args.weights == "fp32")

    def step():
        optimizer.zero_grad(set_to_none=True)
        total = 0
        for i in range(0, args.batch, args.micro):
            if args.mode in forms.OWN_GRAPHS:
                torch.compiler.cudagraph_mark_step_begin()
            with autocast:
                loss = model(tokens[i:i + args.micro], targets[i:i + args.micro]) * (args.micro / args.batch)
            loss.backward()
            total = total + loss.detach().float()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return total

    return step


def captured(torch, step):
    """The step as a graph: as torch.cuda.graph's documentation has it, after steps in a stream of their own. Gradients are
    None before, so that the graph has them in its own memory."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay():
        graph.replay()
        return loss

    return replay


def train(args, torch, model, vocabulary):
    """train_on random tokens."""
    g = torch.Generator().manual_seed(2)
    words = torch.randint(0, vocabulary, (args.batch, args.context + 1), generator=g)
    tokens, targets = (part.contiguous().to(args.device) for part in (words[:, :-1], words[:, 1:]))
    return train_on(args, torch, model, tokens, targets)


def train_on(args, torch, model, tokens, targets):
    """Seconds of the timed steps; the losses of all."""
    wait = torch.cuda.synchronize if args.device == "cuda" else lambda: None
    compiler = forms.Compiler(args)
    compiler.apply(model)
    step_once = stepper(args, torch, model, tokens, targets)
    times, losses = [], []
    for step in range(args.warmup + args.steps):
        if step == args.warmup:
            step_once = captured(torch, step_once) if args.graph else step_once
            compiler.warm()
        wait()
        begin = time.perf_counter()
        total = step_once()
        wait()
        times.append(time.perf_counter() - begin)
        losses.append(float(total))
    compiler.check()
    return times[args.warmup:], losses


def main():
    args = arguments()
    forms.restart(args)
    torch = forms.load(args, args.threads)
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "parity"))
    from gpt2 import GPT2, random_weights

    size = {**forms.PRESETS[args.preset], **({"vocabulary": args.vocabulary} if args.vocabulary else {})}
    weights = random_weights(size["layers"], size["channels"], args.context, size["vocabulary"], seed=1)
    model = GPT2(weights, size["layers"], size["heads"]).to(args.device)
    if args.weights == "bf16":
        model = model.to(torch.bfloat16)
    times, losses = train(args, torch, model, size["vocabulary"])
    median = statistics.median(times)
    rate = args.batch * args.context / median
    peak = torch.cuda.max_memory_allocated() / 1048576 if args.device == "cuda" else \
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    free, whole = torch.cuda.mem_get_info() if args.device == "cuda" else (0, 0)
    if args.json:
        print(json.dumps({"version": torch.__version__, "device": args.device, "precision": args.precision,
                          "weights": args.weights, "graph": args.graph, **forms.form(args), "step_ms": median * 1e3,
                          "tokens_per_s": rate, "peak_mib": peak, "device_mib": (whole - free) / 1048576,
                          "first_loss": losses[0], "loss": losses[-1], "uniform_loss": math.log(size["vocabulary"])}))
        return
    print(f"torch {torch.__version__} {forms.described(args)}{', one graph' * args.graph}, {args.device} {args.precision} "
          f"({args.weights} weights) {args.preset} "
          f"B={args.batch} T={args.context} micro={args.micro} threads={args.threads}: {median * 1e3:.1f} ms/step "
          f"(min {min(times) * 1e3:.1f}, max {max(times) * 1e3:.1f} of {len(times)}), {rate:.0f} tok/s, loss "
          f"{losses[0]:.3f} to {losses[-1]:.3f}, peak {peak:.0f} MiB")


if __name__ == "__main__":
    main()
