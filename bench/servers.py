#!/usr/bin/env python3
"""Replicas with parameter servers, each on a host of its own, whose link to a switch is slow: how long is a step with each
number of servers, and how far from the simulated one? The hosts are network namespaces; token buckets limit what each
sends and what it receives. Printed: the median of the steps after the first, what bytes and links add up to,
2n(n-1) / (n^2 + kn - 2k) copies of the parameters, and the prediction before the last step.

    bench/servers.py [--rate 100mbit] [--replicas N] [--servers K,K,...] [--steps N] [--json] [key=value ...]

key=value override the run file (below: a GPT of 39.9 million parameters, 32 tokens a replica, so that exchanges are all
that takes time). Needs root, ip and tc (iproute2), ./dev build, and 3 GiB of memory. Wanted: the ratios to the step with
most servers within 5 % of those of the formula."""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import hosts
import needs

RUN = """
model: {kind: gpt, layers: 12, heads: 8, channels: 512, context: 32, vocabulary: 4096}
data: {kind: text, paths: [text.txt]}
train: {batch: 4, micro_batch: 1, clip: 0}
parallel: {threads: 1, zero: 1, wait: 300}
"""


class Star(hosts.Hosts):
    """Namespaces joined by a switch in one more of them."""

    def __init__(self, folder, rate, count):
        super().__init__(folder, rate)
        self.switch = f"pstbench{os.getpid()}s"
        self.names = [f"pstbench{os.getpid()}h{i}" for i in range(count)]
        self.address = [f"10.214.{os.getpid() % 250}.{i + 1}" for i in range(count)]
        self.write_ssh()

    def limit(self, namespace, device):
        subprocess.run(["tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", "rate", self.rate, "burst",
                        hosts.burst_of(self.rate), "latency", "100ms"], check=True)

    def join(self, number, name, address):
        run = lambda *words: subprocess.run(words, check=True)
        port = f"p{number}"
        run("ip", "netns", "add", name)
        run("ip", "-n", self.switch, "link", "add", port, "type", "veth", "peer", "name", "v0", "netns", name)
        run("ip", "-n", self.switch, "link", "set", port, "master", "bridge", "up")
        run("ip", "-n", name, "addr", "add", address + "/24", "dev", "v0")
        run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", name, "link", "set", "v0", "up")
        self.limit(name, "v0")
        self.limit(self.switch, port)

    def __enter__(self):
        try:
            subprocess.run(["ip", "netns", "add", self.switch], check=True)
            subprocess.run(["ip", "-n", self.switch, "link", "add", "bridge", "type", "bridge"], check=True)
            subprocess.run(["ip", "-n", self.switch, "link", "set", "bridge", "up"], check=True)
            for number, (name, address) in enumerate(zip(self.names, self.address)):
                self.join(number, name, address)
            time.sleep(2)  # ports begin to forward
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        super().__exit__()
        subprocess.run(["ip", "netns", "del", self.switch], stderr=subprocess.DEVNULL)


def copies(replicas, servers):
    """How long the busiest link takes, in copies of the parameters (BytePS's theorem 1)."""
    n, k = replicas, servers
    return 2 * n * (n - 1) / (n * n + k * n - 2 * k)


def measure(args, folder, servers):
    keys = [f"parallel.data={args.replicas}", f"parallel.servers={servers}", *args.override]
    with Star(folder, args.rate, args.replicas + servers) as star:
        lines = hosts.steps_of(star, folder, 1, args.steps, keys, servers, learned=1)
    return {"servers": servers, "measured_s": statistics.median(x["step_ms"] for x in lines) / 1e3,
            "predicted_s": lines[-1]["predicted_step_ms"] / 1e3, "copies": copies(args.replicas, servers)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--servers", default="0,2,4")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("override", nargs="*", metavar="key=value")
    args = parser.parse_args()
    needs.check(("ip", "iproute2"), ("tc", "iproute2"), root=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # take the hosts down
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        hosts.write_files(folder, RUN)
        for servers in args.servers.split(","):
            rows.append(measure(args, folder, int(servers)))
            if not args.json:
                row = rows[-1]
                print(f"{row['servers']} servers: measured {row['measured_s']:.2f} s, predicted {row['predicted_s']:.2f} s, "
                      f"{row['copies']:.2f} copies of the parameters", flush=True)
    for row in rows:
        row["ratio"] = row["measured_s"] / rows[-1]["measured_s"]
        row["wanted"] = row["copies"] / rows[-1]["copies"]
    if args.json:
        print(json.dumps({"rate": args.rate, "replicas": args.replicas, "rows": rows}))
        return
    for row in rows:
        print(f"{row['servers']} servers: {row['ratio']:.3f} of the step with {rows[-1]['servers']} (formula {row['wanted']:.3f})")


if __name__ == "__main__":
    main()
