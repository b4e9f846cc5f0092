#!/usr/bin/env python3
"""The side of transformers in the parity test of llama: 20 AdamW steps of LlamaForCausalLM from random weights.

    llama.py DIR    writes the files of the fixture (README.md), with names without "model.", and logits.safetensors

Needs torch and transformers."""

import array
import json
import math
import os
import sys

import torch
import transformers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gpt2 import save_safetensors  # noqa: E402
from make_fixture import RULE, read_batches, write  # noqa: E402

SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=16, tie_word_embeddings=False, rms_norm_eps=1e-5,
             rope_parameters=dict(rope_type="llama3", rope_theta=100.0, factor=4.0, low_freq_factor=1.0,
                                  high_freq_factor=4.0, original_max_position_embeddings=8),
             attn_implementation="eager")


def random_model():
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    with torch.no_grad():
        for p in model.parameters():  # ten times the usual scale, so that gradients are not tiny
            p.copy_(torch.randn_like(p) * 0.2 if p.dim() > 1 else 1 + torch.randn_like(p) * 0.1)
    return model


def named(tensors):
    return {name.removeprefix("model."): t for name, t in tensors}


def train(model, tokens, targets):
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": RULE["weight_decay"]},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RULE["lr"], betas=(RULE["beta1"], RULE["beta2"]), eps=RULE["eps"],
                                  foreach=False)
    losses, norms, grads = [], [], {}
    for step in range(1, RULE["steps"] + 1):
        optimizer.zero_grad(set_to_none=True)
        logits = model(tokens[step - 1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets[step - 1].flatten())
        loss.backward()
        norms.append(math.sqrt(sum(p.grad.double().square().sum().item() for p in model.parameters())))
        if step in (1, RULE["steps"]):
            grads[step] = named((n, p.grad.clone()) for n, p in model.named_parameters())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms, grads


def main():
    folder = sys.argv[1]
    torch.set_num_threads(1)
    os.makedirs(folder, exist_ok=True)
    model, g = random_model(), torch.Generator().manual_seed(2)
    context = SIZES["max_position_embeddings"]
    words = torch.randint(0, SIZES["vocab_size"], (RULE["steps"], RULE["batch"], context + 1), generator=g)
    with open(os.path.join(folder, "batches.i32"), "wb") as f:
        array.array("i", words.flatten().tolist()).tofile(f)
    with open(os.path.join(folder, "config.json"), "w", encoding="ascii") as f:
        json.dump({**SIZES, "model_type": "llama", "attn_implementation": None}, f, indent=2)
        f.write("\n")
    save_safetensors(os.path.join(folder, "model.safetensors"), named(model.named_parameters()))
    tokens, targets = read_batches(os.path.join(folder, "batches.i32"), RULE["steps"], RULE["batch"], context)
    with torch.no_grad():
        save_safetensors(os.path.join(folder, "logits.safetensors"), {"logits": model(tokens[0]).logits})
    write(folder, *train(model, tokens, targets))


main()
