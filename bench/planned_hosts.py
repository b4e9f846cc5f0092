#!/usr/bin/env python3
"""Does the planner choose as it should? A run is planned for two devices of one host, and for two hosts of one device with a
slow link between them; then each of the two layouts is trained in both places. Wanted: the layout that was planned for a
place is the faster one there.

    bench/planned_hosts.py [--rate 1gbit] [--steps N] [--rounds N] [--json] [key=value ...]

The hosts are network namespaces on this machine, as in bench/hosts.py, which says how; the planner knows the link between
them from the cluster file, and the durations of operators from a profile that is taken first. Steps are medians over rounds
that take turns. key=value override the run file (below): parallel.device=timed computes nothing and takes the nominal
durations of a processor core, with real messages, so that the comparison holds on a machine that has other things to do.
Needs root, ip and tc (iproute2), two processors, and ./dev build."""

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

# Gradients (50 MB) that are much for the slow link, and activations (0.5 MB per micro-batch) that are not; a pipeline of few
# micro-batches, in an order with a bubble, so that the ways differ by more than noise.
RUN = """
name: run
model: {kind: gpt, layers: 4, heads: 8, channels: 512, context: 64}
data: {kind: text, paths: [text.txt], validation: 0}
train: {batch: 16, micro_batch: 4}
parallel: {threads: 1, tensor: 1, schedule: 1f1b, recompute: none}
checkpoint: {every: 0}
"""
LEARNED = 4  # steps that are not counted


def cluster_of(place, rate):
    """A cluster file: rate as tc has it, in bits per second."""
    if place == "one host":
        return "nodes: [{devices: [{count: 2}]}]\n"
    bits = rate.replace("gbit", "Gb/s").replace("mbit", "Mb/s")
    return f"links: {{ib: {{bandwidth: {bits}, latency: 100us}}}}\nnodes: [{{count: 2, devices: [{{count: 1}}]}}]\n"


def penstock(folder, *words, **env):
    done = subprocess.run([hosts.PENSTOCK, *words], cwd=folder, env=dict(os.environ, **env), capture_output=True, text=True,
                          timeout=600, check=False)
    if done.returncode:
        sys.exit(f"penstock {' '.join(words)}: {done.stderr}")
    return done.stdout


def plan(folder, place, rate, overrides):
    """Plans a run for a place; returns the plan's file and what it is."""
    name = place.replace(" ", "-")
    with open(os.path.join(folder, name + ".cluster.yaml"), "w") as f:
        f.write(cluster_of(place, rate))
    found = json.loads(penstock(folder, "plan", "run.yaml", *overrides, "--cluster", name + ".cluster.yaml", "-o",
                                name + ".plan.yaml", "--json"))
    return name + ".plan.yaml", found


def train(folder, place, both, plan_file, steps, number, overrides):
    """Seconds of a step."""
    words = ["train", "run.yaml", "-q", f"parallel.plan={plan_file}", f"name=r{number}", f"train.steps={steps}", *overrides]
    if place == "one host":
        penstock(folder, *words, "-n", "2")
    else:
        penstock(folder, *words, "--hostfile", "hosts", PENSTOCK_SSH=both.ssh, UCX_TLS="tcp,self")
    with open(os.path.join(folder, "runs", f"r{number}", "metrics.jsonl")) as f:
        lines = [json.loads(line) for line in f]
    return statistics.median(x["step_ms"] for x in lines if "event" not in x and x["step"] > LEARNED)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("override", nargs="*", metavar="key=value")
    args = parser.parse_args()
    needs.check(("ip", "iproute2"), ("tc", "iproute2"), root=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # take the hosts down
    places = ["one host", "two hosts"]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "text.txt"), "w") as f:
            f.writelines(f"{i} bottles of beer on the wall, and if one of them should fall\n" for i in range(3000))
        with open(os.path.join(folder, "run.yaml"), "w") as f:
            f.write(RUN)
        if "parallel.device=timed" not in args.override:
            penstock(folder, "profile", "run.yaml", "-o", "profile.yaml", *args.override)
            args.override.append("parallel.profile=profile.yaml")
        plans = {place: plan(folder, place, args.rate, args.override) for place in places}
        took = {(place, of): [] for place in places for of in places}
        with hosts.Hosts(folder, args.rate) as both:
            with open(os.path.join(folder, "hosts"), "w") as f:
                f.writelines(f"{address} slots=1\n" for address in both.address)
            for number in range(args.rounds):
                for i, key in enumerate(took):
                    took[key].append(train(folder, key[0], both, plans[key[1]][0], args.steps, 4 * number + i, args.override))
    rows = [{"place": place, "planned_for": of, "step_ms": statistics.median(ms), "rounds": ms}
            for (place, of), ms in took.items()]
    if args.json:
        print(json.dumps({"rate": args.rate, "plans": {k: v[1] for k, v in plans.items()}, "steps": rows}))
        return
    for place in places:
        found = plans[place][1]
        at = found["layout"]
        print(f"planned for {place}: {at['pipeline']} stages x {at['data']} replicas, {1000 * found['step_s']:.0f} ms predicted")
    for row in rows:
        print(f"on {row['place']}, planned for {row['planned_for']}: {row['step_ms']:.0f} ms")
    for place in places:
        own, other = (statistics.median(took[place, of]) for of in (place, places[place == places[0]]))
        print(f"on {place} its own layout takes {own / other:.2f} of the other's step (wanted: below 1)")


if __name__ == "__main__":
    main()
