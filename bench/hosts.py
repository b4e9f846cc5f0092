#!/usr/bin/env python3
"""Two hosts with a slow link between them: how far is a measured step from the simulated one? The hosts are network
namespaces joined by a pair of interfaces whose rate a token bucket limits; a rank (or several) runs in each, started by
--hostfile, with UCX over tcp. The link is measured by the ranks at their start, the durations of passes in the first
steps; what is compared is the median of the steps after them with the prediction made before each.

    bench/hosts.py [--rate 1gbit] [--slots N] [--steps N] [--rounds N] [--json] [key=value ...]

key=value override the run file (below: a GPT of 4 layers of width 256, micro-batches of 256 tokens, 1F1B). Needs root,
ip and tc (iproute2), and ./dev build. Wanted: within 10 % of each other."""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import needs
from needs import PENSTOCK

LEARNED = 7  # steps before the prediction is complete
RUN = """
model: {kind: gpt, layers: 4, heads: 4, channels: 256, context: 64}
data: {kind: text, paths: [text.txt]}
train: {batch: 32, micro_batch: 4}
parallel: {threads: 1, schedule: 1f1b}
"""


def burst_of(rate):
    """What may be sent at once after a pause: of half a millisecond, so that single messages take their time."""
    for unit, bytes_per_s in (("kbit", 125), ("mbit", 125e3), ("gbit", 125e6)):
        if rate.endswith(unit):
            return str(max(2000, int(float(rate[:-len(unit)]) * bytes_per_s * 5e-4)))
    return "64kb"


class Hosts:
    """Two namespaces; a command that reaches them as ssh would."""

    def __init__(self, folder, rate):
        self.names = [f"pstbench{os.getpid()}{end}" for end in "ab"]
        third = os.getpid() % 250
        self.address = [f"10.214.{third}.{i + 1}" for i in range(2)]
        self.rate = rate
        self.ssh = os.path.join(folder, "ssh")
        self.write_ssh()

    def write_ssh(self):
        with open(self.ssh, "w") as f:
            f.write("#!/bin/sh\ncase $1 in\n")
            for name, address in zip(self.names, self.address):
                f.write(f'{address}) exec ip netns exec {name} sh -c "$2" ;;\n')
            f.write("esac\nexit 255\n")
        os.chmod(self.ssh, 0o755)

    def __enter__(self):
        run = lambda *words: subprocess.run(words, check=True)
        try:
            for name in self.names:
                run("ip", "netns", "add", name)
            run("ip", "-n", self.names[0], "link", "add", "v0", "type", "veth", "peer", "name", "v0", "netns",
                self.names[1])
            for name, address in zip(self.names, self.address):
                run("ip", "-n", name, "addr", "add", address + "/24", "dev", "v0")
                run("ip", "-n", name, "link", "set", "lo", "up")
                run("ip", "-n", name, "link", "set", "v0", "up")
                run("tc", "-n", name, "qdisc", "add", "dev", "v0", "root", "tbf", "rate", self.rate, "burst",
                    burst_of(self.rate), "latency", "100ms")
            for name in self.names:  # the kernel sees a carrier by and by
                while subprocess.run(["ip", "netns", "exec", name, "cat", "/sys/class/net/v0/operstate"],
                                     capture_output=True, text=True).stdout != "up\n":
                    time.sleep(0.1)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.names:
            pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()
            for pid in pids:
                subprocess.run(["kill", "-9", pid], stderr=subprocess.DEVNULL)
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def write_files(folder, run):
    """Data and run file of a measurement."""
    with open(os.path.join(folder, "text.txt"), "w") as f:
        f.writelines(f"{i} bottles of beer on the wall, and if one of them should fall\n" for i in range(3000))
    with open(os.path.join(folder, "run.yaml"), "w") as f:
        f.write(run)


def steps_of(hosts, folder, slots, steps, overrides, number, learned=LEARNED):
    """Lines of metrics.jsonl of the steps after the first ones, whose prediction is complete."""
    with open(os.path.join(folder, "hosts"), "w") as f:
        f.writelines(f"{address} slots={slots}\n" for address in hosts.address)
    words = [PENSTOCK, "train", "run.yaml", "--hostfile", "hosts", "-q", f"name=r{number}", f"train.steps={steps}",
             "checkpoint.every=0", "data.validation=0", *overrides]
    env = dict(os.environ, PENSTOCK_SSH=hosts.ssh, UCX_TLS="tcp,self")
    subprocess.run(words, cwd=folder, env=env, check=True, timeout=600)
    with open(os.path.join(folder, "runs", f"r{number}", "metrics.jsonl")) as f:
        lines = [json.loads(line) for line in f]
    return [x for x in lines if "event" not in x][learned:]


def measure(hosts, folder, slots, steps, overrides, number):
    lines = steps_of(hosts, folder, slots, steps, overrides, number)
    return [(x["step_ms"], x["predicted_step_ms"]) for x in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--steps", type=int, default=27)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("override", nargs="*", metavar="key=value")
    args = parser.parse_args()
    needs.check(("ip", "iproute2"), ("tc", "iproute2"), root=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # take the hosts down
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        write_files(folder, RUN)
        with Hosts(folder, args.rate) as hosts:
            for number in range(args.rounds):
                pairs = measure(hosts, folder, args.slots, args.steps, args.override, number)
                measured, predicted = (statistics.median(x[i] for x in pairs) for i in range(2))
                rounds.append({"measured_ms": measured, "simulated_ms": predicted, "ratio": measured / predicted})
                if not args.json:
                    print(f"round {number + 1}: measured {measured:.1f} ms, simulated {predicted:.1f} ms, "
                          f"ratio {measured / predicted:.3f}", flush=True)
    ratio = statistics.median(x["ratio"] for x in rounds)
    if args.json:
        print(json.dumps({"rate": args.rate, "slots": args.slots, "rounds": rounds, "ratio": ratio,
                          "wanted": [0.9, 1.1]}))
    else:
        print(f"{args.rate} between two hosts of {args.slots}: measured / simulated {ratio:.3f} (wanted 0.9 to 1.1)")


if __name__ == "__main__":
    main()
