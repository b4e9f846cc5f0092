#!/usr/bin/env python3
"""Peer: how long torchft needs to go on when one of two replicas is killed, on CPUs over gloo. Needs the packages torch
and torchft.

    peer_torchft.py [--preset nano] [-B 32] [-T 256] [--kill-after 8] [--tuned]

Two processes train the same model with torchft's Manager, which averages their gradients; one of them is killed with
SIGKILL in a step. Printed is the time from then until the other one has committed its next step. Default: the timeouts of torchft,
60 s; --tuned: 5 s, and 0.5 s for heartbeats. Compare with `elastic.py --kills`."""

import argparse
import datetime
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "tests", "parity")]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--preset", default="nano")
    p.add_argument("-B", "--batch", type=int, default=32)
    p.add_argument("-T", "--context", type=int, default=256)
    p.add_argument("--kill-after", type=int, default=8)
    p.add_argument("--tuned", action="store_true")
    p.add_argument("--limit", type=float, default=300)
    p.add_argument("--replica", type=int, help=argparse.SUPPRESS)
    return p.parse_args()


def train(args):
    import forms
    import torch
    from gpt2 import GPT2, random_weights
    from torchft import Manager, Optimizer, ProcessGroupGloo

    torch.set_num_threads(1)
    size = forms.PRESETS[args.preset]
    weights = random_weights(size["layers"], size["channels"], args.context, size["vocabulary"], seed=1)
    model = GPT2(weights, size["layers"], size["heads"])
    inner = torch.optim.AdamW(model.parameters(), lr=3e-4)
    timeout = datetime.timedelta(seconds=5 if args.tuned else 60)

    def load(state):
        model.load_state_dict(state["model"])
        inner.load_state_dict(state["optimizer"])

    manager = Manager(pg=ProcessGroupGloo(timeout=timeout), load_state_dict=load,
                      state_dict=lambda: {"model": model.state_dict(), "optimizer": inner.state_dict()},
                      min_replica_size=1, timeout=timeout, quorum_timeout=timeout, connect_timeout=timeout,
                      rank=0, world_size=1, replica_id=f"replica{args.replica}")
    optimizer = Optimizer(manager, inner)
    words = torch.randint(0, size["vocabulary"], (args.batch // 2, args.context + 1))
    while True:
        optimizer.zero_grad()
        loss = model(words[:, :-1].contiguous(), words[:, 1:].contiguous())
        loss.backward()
        # not by torchft's DistributedDataParallel, which ends the survivor with torch 2.15
        flat = torch.cat([q.grad.reshape(-1) for q in model.parameters()])
        manager.allreduce(flat).wait()
        at = 0
        for q in model.parameters():
            q.grad.copy_(flat[at:at + q.numel()].view_as(q))
            at += q.numel()
        optimizer.step()
        print(manager.current_step(), manager.num_participants(), time.monotonic(), flush=True)


def begin(args, replica, lighthouse, store):
    command = [sys.executable, os.path.abspath(__file__), "--replica", str(replica), "--preset", args.preset,
               "-B", str(args.batch), "-T", str(args.context)] + (["--tuned"] if args.tuned else [])
    with open(f"out{replica}", "w", encoding="utf-8") as out:
        return subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL,
                                env=dict(os.environ, TORCHFT_LIGHTHOUSE=lighthouse, MASTER_ADDR="localhost",
                                         MASTER_PORT=str(store)))


def steps():
    """(step, replicas in it, time) of the replica that stays."""
    with open("out0", encoding="utf-8") as f:
        return [tuple(float(x) for x in line.split()) for line in f.read().split("\n")[:-1]]


def wait_for(processes, true, limit):
    end = time.monotonic() + limit
    while not true():
        if time.monotonic() > end or processes[0].poll() is not None:
            raise SystemExit("torchft does not go on")
        time.sleep(0.005)


def check_packages():
    import forms
    forms.torch_or_exit()
    try:
        import torchft  # noqa: F401
    except ImportError as why:
        raise SystemExit(f"{os.path.basename(sys.argv[0])}: needs torchft: pip install torchft: {why}") from None


def kill_one(args):
    import torch.distributed as dist
    from torchft.coordination import LighthouseServer

    lighthouse = LighthouseServer(bind="[::]:0", min_replicas=1, join_timeout_ms=2000, quorum_tick_ms=100,
                                  heartbeat_timeout_ms=500 if args.tuned else 5000)
    stores = [dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False) for _ in range(2)]
    processes = [begin(args, i, lighthouse.address(), stores[i].port) for i in range(2)]
    try:
        wait_for(processes, lambda: sum(n == 2 for _, n, _ in steps()) >= args.kill_after, args.limit)
        together = [line for line in steps() if line[1] == 2]
        step = (together[-1][2] - together[0][2]) / (len(together) - 1)
        time.sleep(random.random() * step)
        killed, done = time.monotonic(), len(steps())
        processes[1].send_signal(signal.SIGKILL)
        at = together[-1][0]
        wait_for(processes, lambda: any(s > at and n == 1 and t > killed for s, n, t in steps()[done:]), args.limit)
        first = next(t for s, n, t in steps()[done:] if s > at and n == 1 and t > killed)
        print(f"torchft, {args.preset}: step of two replicas {step:.3f} s; from the kill to the next committed step "
              f"{first - killed:.2f} s")
    finally:
        for p in processes:
            p.kill()
            p.wait()
        lighthouse.shutdown()


def main():
    args = arguments()
    if args.replica is not None:
        train(args)
    check_packages()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        kill_one(args)


if __name__ == "__main__":
    main()
