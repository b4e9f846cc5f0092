#!/usr/bin/env python3
"""Two replicas, each on a host of its own, and a slow link between them: what do packed gradients save, and how far is
the measured step from the simulated one? The hosts are those of hosts.py. For each rate and codec, in turn: the median
of the measured steps and of the predictions made before each. Beside them, in the same rounds, PyTorch's
DistributedDataParallel over gloo with its hooks.

    bench/slow_links.py [--rates 100mbit,1gbit] [--codecs fp32,int8,int4,2bit+int8] [--steps N] [--rounds N]
                        [--also NAME:key=value,key=value ...] [--peers fp32,fp16,powersgd] [--model six|gpt2] [--json] [key=value ...]

six: a GPT of 6 layers of 384 channels (10.8 million parameters), 4,096 tokens a replica. gpt2: GPT-2 124M with 8
samples of 128 tokens a replica. A codec is UP, or UP+DOWN if weights are packed on their way back, too. --also: runs
with other keys beside them, such as delayed:parallel.update=delayed or islands:parallel.local.steps=50; their mean
step (of whole cycles of islands, if --steps is 7 more than a multiple of these) is also printed. key=value override
the run file of all runs. Needs root, ip and tc (iproute2), and ./dev build; peers: the Python of PST_TORCH_PYTHON. Ranks
wait for a processor where other programs run: `chrt -f 50` before the command avoids that. Wanted: within 5 % of the
simulated step, and shorter than the peers."""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile

import hosts
import needs

RUNS = {
    "six": """
model: {kind: gpt, layers: 6, heads: 6, channels: 384, context: 256}
data: {kind: text, paths: [text.txt]}
train: {batch: 32, micro_batch: 16}
parallel: {threads: 1, data: 2, zero: 1}
""",
    "gpt2": """
model: {kind: gpt, preset: gpt2, context: 128}
data: {kind: text, paths: [text.txt]}
train: {batch: 16, micro_batch: 8}
parallel: {threads: 1, data: 2, zero: 1}
""",
}
SIZES = {"six": (32, 256), "gpt2": (16, 128)}  # samples of both replicas, context


def keys_of(codec, also):
    """Keys of the run file for UP or UP+DOWN, or for a name of --also."""
    if codec in also:
        return also[codec]
    if codec == "fp32":
        return []
    up, _, down = codec.partition("+")
    return [f"parallel.compress.up={up}"] + [f"parallel.compress.down={down}"] * bool(down)


def one(pair, folder, args, codec, number):
    """Medians of one run: measured and simulated step, the ratio of bytes."""
    lines = hosts.steps_of(pair, folder, 1, args.steps, args.override + keys_of(codec, args.also), number)
    middle = lambda key: statistics.median(x.get(key, 1.0) for x in lines)
    return {"measured_ms": middle("step_ms"), "simulated_ms": middle("predicted_step_ms"),
            "mean_ms": statistics.mean(x["step_ms"] for x in lines), "compression": middle("compression")}


def peer(pair, args, hook):
    """Median of the steps of PyTorch's replicas."""
    samples, context = SIZES[args.model]
    words = [os.environ.get("PST_TORCH_PYTHON", sys.executable), os.path.join(needs.HERE, "peer_ddp.py"), "--preset", args.model, "-B", str(samples),
             "-T", str(context), "--json", "--hosts", ",".join(f"{n}={a}" for n, a in zip(pair.names, pair.address))]
    out = subprocess.run(words + ["--hook", hook] * (hook != "fp32"), check=True, capture_output=True, text=True,
                         timeout=600)
    return {"measured_ms": json.loads(out.stdout.splitlines()[-1])["step_ms"]}


def described(row):
    if "simulated_ms" not in row:
        return f"{row['measured_ms']:.0f} ms"
    return (f"{row['measured_ms']:.0f} ms (mean {row['mean_ms']:.0f}), simulated {row['simulated_ms']:.0f} ms, measured / simulated "
            f"{row['measured_ms'] / row['simulated_ms']:.3f}, bytes / {row['compression']:.2f}")


def rows(args, folder):
    """Medians over the rounds, one row per rate and codec or peer."""
    names = [codec for codec in args.codecs.split(",") if codec] + list(args.also) + ["DDP " + hook for hook in args.peers.split(",") if hook]
    for rate in args.rates.split(","):
        runs = {name: [] for name in names}
        with hosts.Hosts(folder, rate) as pair:
            for number in range(args.rounds):
                for name in names:
                    ours = not name.startswith("DDP ")
                    found = one(pair, folder, args, name, f"{rate}-{name}-{number}") if ours else \
                        peer(pair, args, name[4:])
                    runs[name].append(found)
                    if not args.json:
                        print(f"{rate} {name} round {number + 1}: {described(found)}", flush=True)
        for name, found in runs.items():
            yield {"rate": rate, "codec": name,
                   **{key: statistics.median(x[key] for x in found) for key in found[0]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="100mbit,1gbit")
    parser.add_argument("--codecs", default="fp32,int8,int4,2bit+int8")
    parser.add_argument("--also", action="append", default=[], metavar="NAME:key=value,key=value")
    parser.add_argument("--peers", default="")
    parser.add_argument("--model", choices=RUNS, default="six")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("override", nargs="*", metavar="key=value")
    args = parser.parse_args()
    args.also = {name: keys.split(",") for name, keys in (text.split(":", 1) for text in args.also)}
    needs.check(("ip", "iproute2"), ("tc", "iproute2"), root=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # take the hosts down
    with tempfile.TemporaryDirectory() as folder:
        hosts.write_files(folder, RUNS[args.model])
        table = list(rows(args, folder))
    if args.json:
        print(json.dumps({"model": args.model, "rows": table, "wanted": [0.95, 1.05]}))
        return
    for row in table:
        print(f"{row['rate']:>8} {row['codec']:>12}: {described(row)}")


if __name__ == "__main__":
    main()
