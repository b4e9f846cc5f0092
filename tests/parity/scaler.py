"""The dynamic loss scale of torch.amp.GradScaler.

    scaler.py replay METRICS.jsonl START INTERVAL BACKOFF    a fp16 run had the same scale before every step, and the
                                                             same steps were skipped
    scaler.py record                                         made-up runs, for tests without PyTorch: a line `run START
                                                             INTERVAL BACKOFF`, then of every step whether it was finite
                                                             (1 or 0) and the scale after it"""
import json
import random
import sys

import torch


class Run:
    """A run of one weight, which counts the steps that are applied."""

    def __init__(self, start, interval, backoff):
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.optimizer = torch.optim.SGD([self.weight], lr=1.0)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=start, growth_interval=interval, backoff_factor=backoff)

    def step(self, finite):
        self.optimizer.zero_grad()
        self.scaler.scale(self.weight.sum()).backward()
        if not finite:
            self.weight.grad.fill_(float("inf"))
        self.scaler.step(self.optimizer)
        self.scaler.update()


def replay(path, start, interval, backoff):
    with open(path, encoding="utf-8") as f:
        steps = [line for line in map(json.loads, f) if "event" not in line]
    run = Run(float(start), int(interval), float(backoff))
    skipped = applied = 0
    for line in steps:
        if run.scaler.get_scale() != line["loss_scale"]:
            sys.exit(f"step {line['step']}: scale {line['loss_scale']}, GradScaler has {run.scaler.get_scale()}")
        overflow = line["skipped_steps"] > skipped
        if overflow != (line["grad_norm"] is None):
            sys.exit(f"step {line['step']}: skipped is {overflow}, but the gradient norm is {line['grad_norm']}")
        skipped = line["skipped_steps"]
        run.step(not overflow)
        applied += not overflow
    if run.weight.item() != -applied or not skipped or skipped == len(steps):
        sys.exit(f"GradScaler applied {-run.weight.item():g} steps, {applied} of {len(steps)} were")
    print(f"{len(steps)} steps, {skipped} skipped: as torch.amp.GradScaler")


def record():
    draw = random.Random(1)
    for start, interval, backoff in ((65536, 2, 0.5), (1024, 5, 0.25), (4096, 1, 0.125)):
        run, overflow = Run(float(start), interval, backoff), 1 / (1 + 2 * interval)
        print("run", start, interval, backoff)
        for _ in range(60):
            # Ours stays from 1 to 2^24; there is nothing of that in GradScaler.
            scale = run.scaler.get_scale()
            finite = scale < 8 / backoff or (draw.random() > overflow and scale < 1 << 22)
            run.step(finite)
            print(int(finite), f"{run.scaler.get_scale():.17g}")


if __name__ == "__main__":
    {"replay": replay, "record": record}[sys.argv[1]](*sys.argv[2:])
