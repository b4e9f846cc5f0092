#!/usr/bin/env python3
"""The PyTorch side of the parity test: 20 AdamW steps of GPT-2 from given weights on given batches.

    make_fixture.py run --weights W.safetensors --batches B.i32 --heads H --batch B --context T --out DIR
        writes DIR/losses.txt, DIR/grad_step_1.safetensors, DIR/grad_step_N.safetensors
    make_fixture.py fixture DIR      weights, batches and config.json of the small fixture, then `run` on them
    make_fixture.py check DIR        how far fp64 and erf GELU are from the fixture: what tolerances can tell apart

Formats: README.md beside this file. Needs torch only."""

import argparse
import array
import json
import math
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gpt2 import GPT2, load_safetensors, random_weights, save_safetensors  # noqa: E402

SIZES = dict(layers=2, heads=2, channels=32, context=16, vocabulary=64)
RULE = dict(steps=20, batch=4, lr=1e-3, weight_decay=0.1, beta1=0.9, beta2=0.95, eps=1e-8, clip=0.0)


def read_batches(path, steps, batch, context):
    """int32, little endian, [steps][batch][context+1]: tokens are the first `context` of a row, targets the last."""
    with open(path, "rb") as f:
        words = array.array("i", f.read())
    if sys.byteorder == "big":
        words.byteswap()
    row = context + 1
    if len(words) < steps * batch * row:
        raise SystemExit(f"{path}: {len(words)} tokens, expected {steps} x {batch} x {row}")
    all_steps = torch.tensor(words[: steps * batch * row], dtype=torch.int64).view(steps, batch, row)
    return all_steps[:, :, :-1].contiguous(), all_steps[:, :, 1:].contiguous()


def train(weights, tokens, targets, heads, rule, gelu="tanh", dtype=torch.float32):
    """Losses, gradient norms, and {step: {name: gradient before clipping}} of the first and the last step."""
    layers = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("h."))
    model = GPT2({n: w.clone().to(dtype) for n, w in weights.items()}, layers, heads, gelu, fused_attention=False)
    optimizer = model.optimizer(rule["lr"], rule["weight_decay"], (rule["beta1"], rule["beta2"]), rule["eps"],
                                foreach=False)
    losses, norms, grads = [], [], {}
    for step in range(1, rule["steps"] + 1):
        optimizer.zero_grad(set_to_none=True)
        loss = model(tokens[step - 1], targets[step - 1])
        loss.backward()
        norm = math.sqrt(sum(p.grad.double().square().sum().item() for p in model.parameters()))
        if step in (1, rule["steps"]):
            grads[step] = {n: model.weight(n).grad.clone() for n in model.names}
        if rule["clip"] and norm > rule["clip"]:
            for p in model.parameters():
                p.grad.mul_(rule["clip"] / norm)
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm)
    return losses, norms, grads


def write(folder, losses, norms, grads):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "losses.txt"), "w", encoding="ascii") as f:
        for i, (loss, norm) in enumerate(zip(losses, norms)):
            f.write(f"{i + 1} {loss:.17g} {norm:.17g}\n")
    for step, tensors in grads.items():
        save_safetensors(os.path.join(folder, f"grad_step_{step}.safetensors"), tensors)


def run(args):
    rule = {key: getattr(args, key) for key in RULE}
    tokens, targets = read_batches(args.batches, args.steps, args.batch, args.context)
    weights = load_safetensors(args.weights)
    write(args.out, *train(weights, tokens, targets, args.heads, rule, args.gelu, getattr(torch, args.dtype)))


def fixture(args):
    folder, s = args.dir, SIZES
    os.makedirs(folder, exist_ok=True)
    # Ten times GPT-2's scale: at 0.02 and 32 channels activations stay where both GELUs agree.
    weights = random_weights(s["layers"], s["channels"], s["context"], s["vocabulary"], seed=1, scale=0.2)
    save_safetensors(os.path.join(folder, "model.safetensors"), weights)
    g = torch.Generator().manual_seed(2)
    words = torch.randint(0, s["vocabulary"], (RULE["steps"], RULE["batch"], s["context"] + 1), generator=g)
    out = array.array("i", words.flatten().tolist())
    if sys.byteorder == "big":
        out.byteswap()
    with open(os.path.join(folder, "batches.i32"), "wb") as f:
        out.tofile(f)
    with open(os.path.join(folder, "config.json"), "w", encoding="ascii") as f:
        json.dump({"model_type": "gpt2", "n_layer": s["layers"], "n_head": s["heads"], "n_embd": s["channels"],
                   "n_positions": s["context"], "n_ctx": s["context"], "vocab_size": s["vocabulary"],
                   "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}, f, indent=2)
        f.write("\n")
    tokens, targets = read_batches(os.path.join(folder, "batches.i32"), RULE["steps"], RULE["batch"], s["context"])
    weights = load_safetensors(os.path.join(folder, "model.safetensors"))
    write(folder, *train(weights, tokens, targets, s["heads"], RULE))


def distance(a, b):
    """Largest relative L2 distance of any tensor, and its name."""
    return max(((a[n].double() - b[n].double()).norm().item() / b[n].double().norm().item(), n) for n in b)


def check(args):
    folder, s = args.dir, SIZES
    tokens, targets = read_batches(os.path.join(folder, "batches.i32"), RULE["steps"], RULE["batch"], s["context"])
    weights = load_safetensors(os.path.join(folder, "model.safetensors"))
    with open(os.path.join(folder, "losses.txt"), encoding="ascii") as f:
        expected = [float(line.split()[1]) for line in f]
    grads = {step: load_safetensors(os.path.join(folder, f"grad_step_{step}.safetensors"))
             for step in (1, RULE["steps"])}
    for title, gelu, dtype in (("again", "tanh", torch.float32), ("fp64", "tanh", torch.float64),
                               ("erf GELU", "erf", torch.float32)):
        losses, _, got = train(weights, tokens, targets, s["heads"], RULE, gelu, dtype)
        print(f"{title}: loss differs by at most {max(abs(a - b) for a, b in zip(losses, expected)):.2e}")
        for step in grads:
            print(f"    gradients at step {step}: %.2e (%s)" % distance(got[step], grads[step]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    p = commands.add_parser("run")
    for name in ("weights", "batches", "out"):
        p.add_argument("--" + name, required=True)
    for name in ("heads", "context"):
        p.add_argument("--" + name, type=int, required=True)
    for name, value in RULE.items():
        p.add_argument("--" + name, type=type(value), default=value)
    p.add_argument("--gelu", choices=("tanh", "erf"), default="tanh")
    p.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    p.set_defaults(call=run)
    for name, call in (("fixture", fixture), ("check", check)):
        p = commands.add_parser(name)
        p.add_argument("dir")
        p.set_defaults(call=call)
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.call(args)


if __name__ == "__main__":
    main()
