#!/usr/bin/env python3
"""Time per token of generation with a cache, beside the bound that memory sets: penstock bench generate, repeated.

Each round measures the bandwidth and the tokens in one process. With --peer also PyTorch's GPT-2 of transformers, with
random weights and a cache, in the same rounds."""
import argparse
import json
import os
import statistics
import subprocess

import needs
from needs import PENSTOCK

PEER = """
import statistics, sys, time, torch
from transformers import GPT2Config, GPT2LMHeadModel
torch.set_num_threads(int(sys.argv[2]))
sizes = {"gpt2": (12, 12, 768), "gpt2-medium": (24, 16, 1024), "nano": (4, 4, 128)}[sys.argv[1]]
model = GPT2LMHeadModel(GPT2Config(n_layer=sizes[0], n_head=sizes[1], n_embd=sizes[2])).eval()
token, cache, times = torch.tensor([[0]]), None, []
with torch.no_grad():
    for _ in range(int(sys.argv[3]) - 1):
        began = time.monotonic()
        out = model(token, past_key_values=cache, use_cache=True)
        token, cache = out.logits[:, -1:].argmax(-1), out.past_key_values
        times.append(time.monotonic() - began)
print(statistics.median(times))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="gpt2", choices=["gpt2", "gpt2-medium", "nano"])
    parser.add_argument("-T", "--tokens", type=int, default=256)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", metavar="PYTHON", help="a Python with torch and transformers")
    o = parser.parse_args()
    needs.check()
    ratios, times, peers = [], [], []
    for i in range(o.rounds):
        command = [PENSTOCK, "bench", "generate", "--preset", o.preset, "-T", str(o.tokens), "--threads",
                   str(o.threads), "--json"]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["generate"]
        ratios.append(found["of_bound"])
        times.append(found["token_s"] * 1e3)
        line = (f"round {i + 1}: {times[-1]:.2f} ms per token, bound {found['bound_s'] * 1e3:.2f} ms "
                f"({found['bytes_per_s'] * 1e-9:.1f} GB/s): {100 * ratios[-1]:.1f} % of it")
        if o.peer:
            command = [o.peer, "-c", PEER, o.preset, str(o.threads), str(o.tokens)]
            peers.append(1e3 * float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            line += f"; PyTorch {peers[-1]:.2f} ms"
        print(line, flush=True)
    print(f"median of {o.rounds}: {statistics.median(times):.2f} ms per token, "
          f"{100 * statistics.median(ratios):.1f} % of the bound ({100 * min(ratios):.1f} to {100 * max(ratios):.1f} %)"
          + (f"; PyTorch {statistics.median(peers):.2f} ms" if peers else ""))


if __name__ == "__main__":
    main()
