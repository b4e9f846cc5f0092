#!/usr/bin/env python3
"""The other side of the parity test of BERT: BertForPreTraining of transformers with random weights, as
save_pretrained writes it; its logits; and 20 AdamW steps on the same batches.

    bert.py FOLDER    writes hf/ (the model), data.i32, logits.f32, losses.txt, grad_step_1.safetensors and
                      grad_step_20.safetensors there

data.i32, of each step: tokens [B,T], lengths [B], types [B,T], positions [B,P] and targets [B,P] (-1: none), and
next_sentence [B]. logits.f32, of the first batch: of tokens [B,T,V], and of the next sentence [B,2]. losses.txt: step,
loss, gradient norm. Gradients have transformers' names."""

import array
import math
import os
import sys

import torch
import transformers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gpt2 import save_safetensors  # noqa: E402

STEPS, B, T, P, V = 20, 4, 24, 4, 60


def model():
    config = transformers.BertConfig(vocab_size=V, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                     intermediate_size=128, max_position_embeddings=T, hidden_dropout_prob=0,
                                     attention_probs_dropout_prob=0, initializer_range=0.2)
    made = transformers.BertForPreTraining(config)
    with torch.no_grad():  # also what begins as 0 or 1
        for name, weight in made.named_parameters():
            if weight.dim() == 1:
                weight.add_(torch.randn(weight.shape) * 0.2)
    return made


def batch():
    lengths = torch.randint(T // 2, T + 1, (B,))
    inside = torch.arange(T)[None] < lengths[:, None]
    tokens = torch.randint(1, V, (B, T)) * inside  # 0 is [PAD], which has no gradient there
    border = torch.randint(3, T // 2 - 2, (B, 1))
    types = ((torch.arange(T)[None] >= border) & inside).long()
    positions, targets = torch.full((B, P), -1), torch.full((B, P), -1)
    for b in range(B):
        n = int(torch.randint(1, P + 1, (1,)))
        positions[b, :n] = torch.randperm(int(lengths[b]))[:n].sort().values
        targets[b, :n] = torch.randint(0, V, (n,))
    return {"tokens": tokens, "lengths": lengths, "types": types, "positions": positions, "targets": targets,
            "next_sentence": torch.randint(0, 2, (B,))}


def forward(bert, data):
    mask = (torch.arange(T)[None] < data["lengths"][:, None]).long()
    return bert(data["tokens"], attention_mask=mask, token_type_ids=data["types"])


def loss_of(bert, data):
    said = forward(bert, data)
    logits = said.prediction_logits[torch.arange(B)[:, None], data["positions"].clamp(min=0)]
    masked = torch.nn.functional.cross_entropy(logits.reshape(-1, V), data["targets"].reshape(-1), ignore_index=-1)
    return masked + torch.nn.functional.cross_entropy(said.seq_relationship_logits, data["next_sentence"])


def optimizer_of(bert):
    decays = [p for p in bert.parameters() if p.dim() > 1]
    others = [p for p in bert.parameters() if p.dim() == 1]
    return torch.optim.AdamW([{"params": decays, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                             lr=1e-3, betas=(0.9, 0.95), eps=1e-8, foreach=False)


def main():
    folder = sys.argv[1]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    transformers.logging.set_verbosity_error()
    bert, batches = model(), [batch() for _ in range(STEPS)]
    bert.save_pretrained(os.path.join(folder, "hf"))
    with open(os.path.join(folder, "data.i32"), "wb") as f:
        for data in batches:
            for values in data.values():
                array.array("i", values.flatten().tolist()).tofile(f)
    with torch.no_grad(), open(os.path.join(folder, "logits.f32"), "wb") as f:
        said = forward(bert, batches[0])
        for logits in (said.prediction_logits, said.seq_relationship_logits):
            array.array("f", logits.flatten().tolist()).tofile(f)
    optimizer = optimizer_of(bert)
    with open(os.path.join(folder, "losses.txt"), "w", encoding="ascii") as f:
        for step, data in enumerate(batches, 1):
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(bert, data)
            loss.backward()
            norm = math.sqrt(sum(p.grad.double().square().sum().item() for p in bert.parameters()))
            f.write(f"{step} {loss.item():.17g} {norm:.17g}\n")
            if step in (1, STEPS):
                save_safetensors(os.path.join(folder, f"grad_step_{step}.safetensors"),
                                 {name: p.grad.clone() for name, p in bert.named_parameters()})
            optimizer.step()


main()
