"""Replays a fp16 run's metrics through torch.amp.GradScaler: the same steps are skipped, with the same scale before
each.

usage: scaler.py METRICS.jsonl START INTERVAL BACKOFF"""
import json
import sys

import torch

path, start, interval, backoff = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
steps = [line for line in map(json.loads, open(path)) if "event" not in line]
weight = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([weight], lr=1.0)
scaler = torch.amp.GradScaler("cpu", init_scale=start, growth_interval=interval, backoff_factor=backoff)
skipped = applied = 0
for line in steps:
    if scaler.get_scale() != line["loss_scale"]:
        sys.exit(f"step {line['step']}: scale {line['loss_scale']}, GradScaler has {scaler.get_scale()}")
    overflow = line["skipped_steps"] > skipped
    if overflow != (line["grad_norm"] is None):
        sys.exit(f"step {line['step']}: skipped is {overflow}, but the gradient norm is {line['grad_norm']}")
    skipped = line["skipped_steps"]
    optimizer.zero_grad()
    scaler.scale(weight.sum()).backward()
    if overflow:
        weight.grad.fill_(float("inf"))
    scaler.step(optimizer)
    scaler.update()
    applied += not overflow
if weight.item() != -applied or not skipped or skipped == len(steps):
    sys.exit(f"GradScaler applied {-weight.item():g} steps, {applied} of {len(steps)} were")
print(f"{len(steps)} steps, {skipped} skipped: as torch.amp.GradScaler")
