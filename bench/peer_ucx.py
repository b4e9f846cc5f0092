#!/usr/bin/env python3
"""Bandwidth between two ranks of this host: transport `ucx` beside ucx_perftest over the same UCX transports, in turn,
and the time of a message to a rank that computes in tiles of a millisecond.

    bench/peer_ucx.py [--rounds N] [--seconds PER_ROW] [--tls LIST] [--json]

Both keep 32 messages under way, from and to the same memory. Ours waits as the executor does, ucx_perftest spins.
Needs ./dev build, and ucx_perftest (Debian package ucx-utils) for the peer."""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import time

import needs
from needs import PENSTOCK

SIZES = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
TILE_BYTES, TILE_WANTED_US, WANTED = 1 << 20, 1500, 0.95


def ours(size, args, *more):
    """Latency in us, bandwidth in GB/s."""
    out = subprocess.run([PENSTOCK, "bench", "p2p", "--bytes", str(size), "--seconds", str(args.seconds), "--json",
                          *more],
                         check=True, timeout=120, capture_output=True, text=True).stdout
    row = json.loads(out)["p2p"]["rows"][0]
    return row["latency_us"], row["gb_per_s"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def perftest(size, args):
    """Bandwidth in GB/s, over as many messages as take about args.seconds."""
    port, messages = str(free_port()), max(20, int(args.seconds * 5e9 / size))
    server = subprocess.Popen(["ucx_perftest", "-p", port], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        client = ["ucx_perftest", "127.0.0.1", "-p", port, "-t", "tag_bw", "-s", str(size), "-n", str(messages), "-w",
                  str(max(4, messages // 10)), "-f"]
        for _ in range(100):
            done = subprocess.run(client, timeout=120, capture_output=True, text=True, check=False)
            rows = [line.split() for line in done.stdout.splitlines()]
            rows = [row for row in rows if len(row) == 8]
            if done.returncode == 0 and rows:
                return float(rows[-1][5]) * 2**20 / 1e9  # overall, which it calls MB/s
            time.sleep(0.05)  # the server does not listen yet
        raise SystemExit("ucx_perftest: " + done.stdout + done.stderr)
    finally:
        server.kill()
        server.wait()


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--tls", default="posix,self,cma", help="UCX_TLS of both")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    needs.check()
    os.environ["UCX_TLS"] = args.tls
    os.environ["UCX_WARN_UNUSED_ENV_VARS"] = "n"
    peer = shutil.which("ucx_perftest")
    if not peer:
        needs.leave_out("ucx_perftest", "needs ucx_perftest (Debian package ucx-utils)")
    rows = {size: {"ours_gb_s": [], "peer_gb_s": [], "ratio": []} for size in SIZES}
    tile = []
    for _ in range(args.rounds):
        for size, row in rows.items():
            row["ours_gb_s"].append(ours(size, args)[1])
            if peer:
                row["peer_gb_s"].append(perftest(size, args))
                row["ratio"].append(row["ours_gb_s"][-1] / row["peer_gb_s"][-1])
        tile.append(ours(TILE_BYTES, args, "--compute", "1")[0])
    result = {"tls": args.tls, "wanted_ratio": WANTED, "bandwidth": {
        size: {name: spread(values) for name, values in row.items() if values} for size, row in rows.items()},
        "to_computing_us": {"bytes": TILE_BYTES, "wanted": TILE_WANTED_US, **spread(tile)}}
    if args.json:
        print(json.dumps(result))
        return
    print(f"UCX_TLS={args.tls}, medians of {args.rounds}, smallest to largest")
    for size, row in result["bandwidth"].items():
        parts = [f"{name} {value['median']:6.2f} ({value['min']:.2f} to {value['max']:.2f})"
                 for name, value in row.items()]
        print(f"{size:9d} bytes  " + "   ".join(parts))
    t = result["to_computing_us"]
    print(f"{TILE_BYTES} bytes to a rank that computes in tiles of 1 ms: {t['median']:.0f} us ({t['min']:.0f} to "
          f"{t['max']:.0f}; wanted <= {TILE_WANTED_US})")


if __name__ == "__main__":
    main()
