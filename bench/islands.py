#!/usr/bin/env python3
"""Two islands, each on a host of its own, and a slow link between them: how much of the speed without any exchange do
outer steps leave, at the end of a step and with a delay? The hosts are those of hosts.py. In turn: replicas that never
exchange anything (but for reports), islands that wait for the exchange after every H steps, and islands that go on
meanwhile. Printed: the mean of the measured steps of whole periods, and of the predictions made before each.

    bench/islands.py [--rate 300mbit] [--every H] [--delay D] [--fragments P] [--periods N] [--rounds N] [--json]
                     [key=value ...]

key=value override the run file (a GPT of 6 layers of 384 channels, 10.8 million parameters, 1,024 tokens an island).
Needs root, ip and tc (iproute2), and ./dev build. Ranks wait for a processor where other programs run: `chrt -f 50`
before the command avoids that. Wanted: with a delay 0.95 of the speed without exchange."""

import argparse
import json
import signal
import statistics
import sys
import tempfile

import hosts
import needs

RUN = """
model: {kind: gpt, layers: 6, heads: 6, channels: 384, context: 256}
data: {kind: text, paths: [text.txt]}
train: {batch: 8, micro_batch: 4}
parallel: {threads: 1, data: 2}
"""


def one(pair, folder, args, keys, number):
    """Mean measured and simulated step of whole periods, without the last one, which ends the run."""
    steps = args.every * (args.periods + 2)
    lines = hosts.steps_of(pair, folder, 1, steps, keys + args.override, number)
    whole = [x for x in lines if args.every < x["step"] <= args.every * (args.periods + 1)]
    mean = lambda key: statistics.mean(x[key] for x in whole)
    return {"measured_ms": mean("step_ms"), "simulated_ms": mean("predicted_step_ms")}


def cases(args):
    every = [f"parallel.local.steps={args.every}", f"parallel.local.fragments={args.fragments}"]
    return {"none": [f"parallel.local.steps={args.every * (args.periods + 3)}"], "waits": every,
            "delay": every + [f"parallel.local.delay={args.delay}"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="300mbit")
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--delay", type=int, default=8)
    parser.add_argument("--fragments", type=int, default=1)
    parser.add_argument("--periods", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("override", nargs="*", metavar="key=value")
    args = parser.parse_args()
    needs.check(("ip", "iproute2"), ("tc", "iproute2"), root=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # take the hosts down
    found = {name: [] for name in cases(args)}
    with tempfile.TemporaryDirectory() as folder:
        hosts.write_files(folder, RUN)
        with hosts.Hosts(folder, args.rate) as pair:
            for number in range(args.rounds):
                for name, keys in cases(args).items():
                    found[name].append(one(pair, folder, args, keys, f"{name}{number}"))
    table = {name: {key: statistics.median(x[key] for x in rows) for key in rows[0]} for name, rows in found.items()}
    for row in table.values():
        row["speed"] = table["none"]["measured_ms"] / row["measured_ms"]
    if args.json:
        print(json.dumps({"rate": args.rate, "rows": table, "wanted": 0.95}))
        return
    for name, row in table.items():
        print(f"{args.rate} {name:>6}: {row['measured_ms']:.1f} ms, simulated {row['simulated_ms']:.1f} ms, "
              f"{row['speed']:.3f} of the speed without exchange")


if __name__ == "__main__":
    main()
