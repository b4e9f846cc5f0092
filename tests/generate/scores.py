"""The numbers of `penstock eval --json` by transformers: one JSON object per set, as text, words and choices.

usage: scores.py MODEL TEXT WORDS CHOICES, with a model in Hugging Face's format whose tokens are bytes, or whose
tokenizer is beside it"""
import json
import math
import os
import sys

import torch
from transformers import AutoModelForCausalLM

folder, text_file, words_file, choices_file = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
context = model.config.max_position_embeddings
if os.path.exists(os.path.join(folder, "vocab.json")):
    from transformers import GPT2Tokenizer

    tokenizer = GPT2Tokenizer.from_pretrained(folder)

    def encode(text):
        return tokenizer.encode(text)
else:

    def encode(text):
        return list(text.encode())


def losses(tokens):
    """-log p of each token but the first, and whether it is the most likely one."""
    with torch.no_grad():
        logits = model(torch.tensor([tokens[:-1]])).logits[0].double()
    target = torch.tensor(tokens[1:])
    nats = -torch.log_softmax(logits, -1)[torch.arange(len(target)), target]
    return nats.tolist(), (logits.argmax(-1) == target).tolist()


def write(kind, n, nats, tokens, accuracy=None, per_byte=None):
    print(json.dumps({"kind": kind, "n": n, "tokens": tokens, "loss": nats / tokens,
                      "perplexity": math.exp(nats / tokens), "accuracy": accuracy, "accuracy_per_byte": per_byte}))


ids = encode(open(text_file).read())
total = count = windows = 0
for first in range(0, len(ids) - 1, context):
    nats, _ = losses(ids[first:first + context + 1])
    total += sum(nats)
    count += len(nats)
    windows += 1
write("text", windows, total, count)

total = count = right = n = 0
for line in open(words_file).read().splitlines():
    before, word = line.rsplit(" ", 1)
    start, end = encode(before), encode(" " + word)
    nats, best = losses((start + end)[-context:])
    total += sum(nats[-len(end):])
    count += len(end)
    right += all(best[-len(end):])
    n += 1
write("words", n, total, count, right / n)

total = count = right = per_byte = n = 0
for line in open(choices_file):
    q = json.loads(line)
    scores = []
    for ending in q["endings"]:
        start, end = encode(q["ctx"]), encode(" " + ending)
        nats, _ = losses((start + end)[-context - 1:])
        scores.append((sum(nats[-len(end):]), len(end), len(ending.encode())))
    label = q["label"]
    total += scores[label][0]
    count += scores[label][1]
    right += min(range(len(scores)), key=lambda i: scores[i][0]) == label
    per_byte += min(range(len(scores)), key=lambda i: scores[i][0] / scores[i][2]) == label
    n += 1
write("choices", n, total, count, right / n, per_byte / n)
