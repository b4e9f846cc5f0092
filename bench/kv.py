#!/usr/bin/env python3
"""Key-value store on this host: time of pushing and pulling all values of two workers through one server, and through
the workers themselves, beside the rate of messages between two ranks in the same run.

    bench/kv.py [--values N] [--bytes PER_VALUE] [--rounds N] [--json]

A round takes the median of ten rounds of bench/kv.c, then `penstock bench p2p` for messages of one value, and of all
values together: the former stay in the processor's cache, the latter do not, like the values of a store. The rate of a
store is what its server receives and sends. Needs ./dev build and a C compiler."""

import argparse
import json
import os
import socket
import statistics
import subprocess
import tempfile

import needs
from needs import PENSTOCK

ROUNDS = 10


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def compile_program(folder):
    program = os.path.join(folder, "kv")
    library = os.path.dirname(PENSTOCK)
    subprocess.run(["cc", "-O2", os.path.join(needs.HERE, "kv.c"), "-o", program,
                    "-I" + os.path.join(needs.HERE, "..", "include"), "-L" + library, "-lpenstock",
                    "-Wl,-rpath," + library], check=True)
    return program


def store_seconds(program, servers, args):
    """The median round of two workers."""
    world = dict(os.environ, WORLD_SIZE=str(2 + servers), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()),
                 PENSTOCK_SECRET="only-for-this-benchmark")
    command = [program, str(servers), str(args.values), str(args.bytes), str(ROUNDS)]
    ranks = [subprocess.Popen(command, env=dict(world, RANK=str(rank)), stdout=subprocess.PIPE, text=True)
             for rank in range(2 + servers)]
    texts = [rank.communicate(timeout=300)[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit("kv.py: the store has failed, see above")
    return statistics.median(float(line) for line in texts[0].split())


def p2p_rate(size):
    """Bytes per second."""
    text = subprocess.run([PENSTOCK, "bench", "p2p", "--bytes", str(size), "--seconds", "0.3", "--json"],
                          capture_output=True, text=True, check=True).stdout
    return 1e9 * json.loads(text)["p2p"]["rows"][0]["gb_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=40, help="number of values (default 40)")
    parser.add_argument("--bytes", type=int, default=1000000, help="bytes of each value (default 1000000)")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    needs.check(("cc", "gcc"))
    total = args.values * args.bytes
    rows = {"one server": [], "no server": [], "p2p, one value": [], "p2p, all values": []}
    with tempfile.TemporaryDirectory() as folder:
        program = compile_program(folder)
        for _ in range(args.rounds):
            rows["one server"].append(4 * total / store_seconds(program, 1, args))
            rows["no server"].append(4 * total / store_seconds(program, 0, args))
            rows["p2p, one value"].append(p2p_rate(args.bytes))
            rows["p2p, all values"].append(p2p_rate(total))
    if args.json:
        print(json.dumps({"bytes_per_s": rows}))
        return
    print(f"{args.values} values of {args.bytes} bytes, two workers, {args.rounds} rounds: median and range, GB/s; "
          "part of p2p in the same round")
    for name, rates in rows.items():
        parts = [statistics.median(a / b for a, b in zip(rates, rows[p])) for p in ("p2p, one value", "p2p, all values")]
        print(f"{name:16} {statistics.median(rates) / 1e9:6.2f} ({min(rates) / 1e9:.2f}-{max(rates) / 1e9:.2f})  "
              f"{parts[0]:.2f} of one value, {parts[1]:.2f} of all values")


if __name__ == "__main__":
    main()
