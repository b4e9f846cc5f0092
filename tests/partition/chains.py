"""Random chains in the formats of dnn-partitioning and PipeDream, whose best split is found here by trying all, and by
`penstock plan --graph`: both objectives are the same. The cost models are written down once more, from the references.

    chains.py PENSTOCK FOLDER SEED COUNT"""

import functools
import json
import math
import os
import random
import subprocess
import sys

NODES, DEVICES, BANDWIDTH = 7, 4, 1e9


def plan(program, path, *options):
    done = subprocess.run([program, "plan", "--graph", path, "--json", *map(str, options)], capture_output=True, text=True,
                          check=False, timeout=60)
    if done.returncode:
        return None, done.stderr
    found = json.loads(done.stdout)
    return found["objective"], "" if found["proven"] else "not proven"


def dnn(draw, path):
    """The best objective of a new workload in `path`, in ms; infinite: nothing fits."""
    n, accelerators, cpus, room = draw.randint(2, NODES), draw.randint(1, 3), draw.randint(0, 1), draw.randint(4, 20)
    nodes = [{"id": i, "supportedOnFpga": int(draw.random() < 0.9), "cpuLatency": draw.randint(1, 60) / 4,
              "fpgaLatency": draw.randint(1, 20) / 4, "isBackwardNode": 0, "size": draw.randint(0, 8)} for i in range(n)]
    cost = [draw.choice([0, 0.25, 1, 3]) for _ in range(n - 1)]
    with open(path, "w", encoding="ascii") as f:
        json.dump({"maxSizePerFPGA": room, "maxFPGAs": accelerators, "maxCPUs": cpus, "nodes": nodes,
                   "edges": [{"sourceId": i, "destId": i + 1, "cost": c} for i, c in enumerate(cost)]}, f)

    def on_accelerator(i, j):  # nodes i to j - 1: they compute, and what comes in and goes out is moved
        part = nodes[i:j]
        if sum(v["size"] for v in part) > room or not all(v["supportedOnFpga"] for v in part):
            return math.inf
        return sum(v["fpgaLatency"] for v in part) + (cost[i - 1] if i else 0) + (cost[j - 1] if j < n else 0)

    @functools.cache
    def best(i, a, c):  # of nodes i and later on what is left
        if i == n:
            return 0
        ways = [math.inf]
        for j in range(i + 1, n + 1):
            if a:
                ways.append(max(on_accelerator(i, j), best(j, a - 1, c)))
            if c:
                ways.append(max(sum(v["cpuLatency"] for v in nodes[i:j]), best(j, a, c - 1)))
        return min(ways)
    return best(0, accelerators, cpus), []


def pipedream(draw, path):
    """Likewise, in seconds: stages with replicas, whose gradients are exchanged."""
    n, devices = draw.randint(2, NODES), draw.randint(1, DEVICES)
    rows = [(draw.randint(1, 40) / 4, draw.randint(1, 40) / 4, draw.choice([0, 1, 4, 16]) * 1_000_000) for _ in range(n)]
    with open(path, "w", encoding="ascii") as f:
        for i, (forward, backward, parameters) in enumerate(rows):
            f.write(f"node{i + 1} -- layer -- forward_compute_time={forward}, backward_compute_time={backward}, "
                    f"activation_size=8.0, parameter_size={parameters}.0\n")
        f.writelines(f"\tnode{i} -- node{i + 1}\n" for i in range(1, n))

    @functools.cache
    def best(i, left):
        if i == n:
            return 0
        ways = [math.inf]
        for j in range(i + 1, n + 1):
            compute, parameters = sum(f + b for f, b, _ in rows[i:j]) / 1e3, sum(p for _, _, p in rows[i:j])
            ways += [max((compute + 4 * (m - 1) * parameters / (BANDWIDTH * m)) / m, best(j, left - m))
                     for m in range(1, left + 1)]
        return min(ways)
    return best(0, devices), ["--devices", devices, "--bandwidth", BANDWIDTH]


def main():
    program, folder, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    draw = random.Random(seed)
    path = os.path.join(folder, "workload")
    impossible = 0
    for case in range(count):
        for make in (dnn, pipedream):
            expected, options = make(draw, path)
            found, why = plan(program, path, *options)
            where = f"seed {seed}, case {case}, {make.__name__}"
            if math.isinf(expected):
                impossible += 1
                if found is not None:
                    sys.exit(f"{where}: {found}, but nothing fits")
            elif found is None or why or abs(found / expected - 1) > 1e-5:
                sys.exit(f"{where}: {found}, expected {expected}: {why}")
    print(f"{2 * count} chains, of which {impossible} fit nowhere")


if __name__ == "__main__":
    main()
