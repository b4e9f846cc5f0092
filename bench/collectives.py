#!/usr/bin/env python3
"""All-reduce of two ranks of this host: penstock (the algorithm that a run takes, over transport ucx) beside Open MPI
and PyTorch's gloo, in turn.

    bench/collectives.py [--rounds N] [--seconds PER_ROW] [--json]

All do one all-reduce of fp32 after the other, in place, and the median time on rank 0 counts; of Open MPI also with two
buffers, and the better one counts; its algorithm is its own choice, which was faster than each of those that it can be
told to take (coll_tuned_allreduce_algorithm 3 to 6; Zen 4). Needs ./dev build; for the peers mpicc and mpirun (Debian
packages openmpi-bin, libopenmpi-dev) and torch, each left out where it is not here."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import forms
import needs
from needs import PENSTOCK

WANTED = {64 << 10: 1.0, 1 << 20: 1.0, 64 << 20: 0.5}  # of Open MPI's time
MPI = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    size_t bytes = strtoull(argv[1], NULL, 10);
    double seconds = atof(argv[2]), best = 0;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    void *from = malloc(bytes), *to = malloc(bytes);
    memset(from, 0, bytes), memset(to, 0, bytes);
    for (int in_place = 0; in_place < 2; in_place++) {
        static double took[4000];
        int n = 4000;
        for (int i = -3; i < n; i++) {
            double start = MPI_Wtime();
            MPI_Allreduce(in_place ? MPI_IN_PLACE : from, to, (int)(bytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            double end = MPI_Wtime() - start;
            if (i >= 0) took[i] = end;
            if (i == -1) {
                n = (int)(seconds / 2 / end) + 5;
                if (n > 4000) n = 4000;
                MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD);
            }
        }
        qsort(took, (size_t)n, sizeof *took, by_value);
        if (!in_place || took[n / 2] < best) best = took[n / 2];
    }
    if (!rank) printf("%.9f\n", best);
    MPI_Finalize();
}
"""


def ours(size, args):
    """us, and the name of the algorithm."""
    command = [PENSTOCK, "bench", "collectives", "--collective", "all-reduce", "--bytes", str(size), "--seconds",
               str(args.seconds), "--json"]
    out = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True).stdout
    chosen = json.loads(out)["collectives"]["rows"][0]["algorithms"][0]
    return chosen["us"], chosen["name"]


def build_mpi(folder):
    """The program, or None, which is said."""
    if not shutil.which("mpicc") or not shutil.which("mpirun"):
        needs.leave_out("Open MPI", "needs mpicc and mpirun (Debian packages openmpi-bin, libopenmpi-dev)")
        return None
    source, program = os.path.join(folder, "allreduce.c"), os.path.join(folder, "allreduce")
    with open(source, "w", encoding="utf-8") as f:
        f.write(MPI)
    done = subprocess.run(["mpicc", "-O2", "-o", program, source], check=False, capture_output=True, text=True)
    if done.returncode == 0:
        return program
    why = (done.stderr.strip().splitlines() or ["it says nothing"])[0]
    needs.leave_out("Open MPI", f"mpicc fails (Debian package libopenmpi-dev): {why[:200]}")
    return None


def mpi(program, size, args):
    command = ["mpirun", "-n", "2", "--oversubscribe", program, str(size), str(args.seconds)]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    out = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True, env=environment).stdout
    return float(out.split()[-1]) * 1e6


def gloo_rank(rank, port, size, seconds):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    data = torch.zeros(size // 4)
    took, n = [], 10000
    i = -3
    while i < n:
        start = time.perf_counter()
        dist.all_reduce(data)
        end = time.perf_counter() - start
        if i >= 0:
            took.append(end)
        if i == -1:
            count = torch.tensor([int(seconds / end) + 5])
            dist.broadcast(count, 0)
            n = int(count)
        i += 1
    if rank == 0:
        print(statistics.median(took) * 1e6)
    dist.destroy_process_group()


def gloo(size, args):
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    ranks = [subprocess.Popen([sys.executable, __file__, "--gloo", str(rank), str(port), str(size), str(args.seconds)],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for rank in range(2)]
    out = [rank.communicate(timeout=300)[0] for rank in ranks]
    return float(out[0].split()[-1])


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "n": len(values)}


def measure(args, folder):
    program = build_mpi(folder)
    has_torch = subprocess.run([sys.executable, "-c", "import torch"], check=False, capture_output=True).returncode == 0
    if not has_torch:
        needs.leave_out("gloo", forms.MISSING)
    rows = {size: {"ours_us": [], "mpi_us": [], "gloo_us": [], "ratio": [], "gloo_ratio": []} for size in WANTED}
    names = {}
    for _ in range(args.rounds):
        for size, row in rows.items():
            us, names[size] = ours(size, args)
            row["ours_us"].append(us)
            if program:
                row["mpi_us"].append(mpi(program, size, args))
                row["ratio"].append(us / row["mpi_us"][-1])
            if has_torch:
                row["gloo_us"].append(gloo(size, args))
                row["gloo_ratio"].append(us / row["gloo_us"][-1])
    return {str(size): {"algorithm": names[size], "wanted": WANTED[size],
                        **{name: spread(values) for name, values in row.items() if values}}
                 for size, row in rows.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--gloo", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    needs.check()
    if args.gloo:
        gloo_rank(int(args.gloo[0]), int(args.gloo[1]), int(args.gloo[2]), float(args.gloo[3]))
        return
    with tempfile.TemporaryDirectory() as folder:
        found = measure(args, folder)
    if args.json:
        print(json.dumps(found))
        return
    print(f"all-reduce of two ranks, us, medians of {args.rounds} (smallest to largest)")
    for size, row in found.items():
        parts = [f"{name} {value['median']:9.2f} ({value['min']:.2f} to {value['max']:.2f})"
                 for name, value in row.items()
                 if isinstance(value, dict)]
        print(f"{size:>9} bytes, {row['algorithm']}: " + "  ".join(parts) + f"  wanted {row['wanted']}")


if __name__ == "__main__":
    main()
