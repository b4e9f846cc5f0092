#!/usr/bin/env python3
"""`penstock plan --graph` on other planners' workloads, beside what those planners find and how long they take; and
`penstock plan examples/gpt3.yaml`, everything searched.

    bench/planner.py [--data FOLDER] [--dnn CHECKOUT] [--rounds N] [--seed S] [--json]

FOLDER has dnn-partitioning/throughput-inputs, pipedream/profiles and piper/bert32a100.json, as the repositories of
msr-fiddle do; CHECKOUT is a checkout of msr-fiddle/dnn-partitioning, for its larger workloads. A row is left out where
its file is not there. Seconds are processor time of the whole program, the median of N rounds (3), MiB its largest
resident memory. The references' objectives and seconds are of their programs, run unmodified on a machine like this
one: of PipeDream and Piper they are what to match or beat, of dnn-partitioning, which solves exactly, what to match. A
gap is that to the lower bound which the plan is printed with; 0 is a proof. The random graphs follow from the seed:
1,000 operators, most of which take the output of one of the last few before them, on 1,024 devices of one, two and
three kinds. Human splits are judged, not found. Piper's rows have 25 GiB/s, as its program does, not the
25e9 bytes per second of its file. bert96 is Piper's BERT with 64 copies of a layer that stands between
two others. A run's objective is the step of the best layout, as it was prepared. Needs ./dev build."""

import argparse
import copy
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

import needs
from needs import PENSTOCK

HERE = os.path.dirname(os.path.abspath(__file__))
GIB = 2**30

# file, its options, objective and seconds of the reference (None: not known)
DNN = [("LayerGraphs/bert24_inference", 17.7899, 0.01), ("LayerGraphs/bert24_training", 41.7458, 0.01),
       ("LayerGraphs/resnet50_inference", 33.7747, 0.1), ("LayerGraphs/resnet50_training", 78.6318, 1.1),
       ("OperatorGraphs/bert_l-3_inference", 27.9186, 9.5), ("OperatorGraphs/bert_l-3_training", 65.3031, 5.3),
       ("LayerGraphs/gnmt_inference", 32.9107, 16), ("LayerGraphs/gnmt_training", 107.004, None),
       ("LayerGraphs/inceptionv3_inference", None, None), ("LayerGraphs/inceptionv3_training", None, None),
       ("OperatorGraphs/bert_l-6_inference", None, None), ("OperatorGraphs/bert_l-6_training", 72.865, None),
       ("OperatorGraphs/bert_l-12_inference", None, None), ("OperatorGraphs/bert_L-12_training", 437.998, None),
       ("OperatorGraphs/resnet50_inference", None, None), ("OperatorGraphs/resnet50_training", 255.194, None)]
PIPEDREAM = [("alexnet", 4, 0.022186, 0.3), ("vgg16", 4, 0.1701790624, 0.2), ("resnet18", 4, 0.065918, 0.3),
             ("densenet121", 4, 0.0819839208, 1.8), ("squeezenet1_0", 4, 0.0714772843, 0.3), ("gnmt", 4, 0.025868, 0.3),
             ("vgg16", 16, 0.0432270743, 0.3)]
LEVELS = [("vgg16, 4 x 4", ["--machines", 4, "--between", 1.25e9, "--compression", 1], 0.0671339969, 0.3),
          ("alexnet, 4 x 4", ["--machines", 4, "--between", 1.25e9, "--compression", 1], 0.0150994944, 0.2),
          ("vgg16, 4, straight", ["--straight", "--compression", 1], 0.23559, 0.2),
          ("vgg16, 4 x 4, activations in no time", ["--machines", 4, "--between", 1.25e9], 0.0441210743, 0.3),
          ("alexnet, 4 x 4, activations in no time", ["--machines", 4, "--between", 1.25e9], 0.0060111784, 0.3),
          ("gnmt, 4 x 4", ["--machines", 4, "--between", 1.25e9, "--compression", 1], None, None),
          ("resnet18, 4 x 4", ["--machines", 4, "--between", 1.25e9, "--compression", 1], None, None),
          ("resnext101, 4 x 4", ["--machines", 4, "--between", 1.25e9, "--compression", 1], None, None),
          ("densenet121, 4 x 4", ["--machines", 4, "--between", 1.25e9, "--compression", 1], None, None),
          ("squeezenet1_0, 4 x 4", ["--machines", 4, "--between", 1.25e9, "--compression", 1], None, None)]
HUMAN = [("bert24_inference", "bert24_inference", 20.084), ("bert24_inference", "bert24_training", 49.4049),
         ("resnet50_inference", "resnet50_inference", 43.9183)]
RANDOM = [("1,024 H100", "128x8 h100 ib:400Gb/s"), ("512 H100 + 512 A100-80", "64x8 h100 ib:400Gb/s + 64x8 a100-80 ib:400Gb/s"),
          ("344 H100 + 344 A100-80 + 336 V100", "43x8 h100 + 43x8 a100-80 + 42x8 v100 ib:400Gb/s")]
PIPER = [("bert32", 8, 8, 0.16585575, 0.06), ("bert32", 32, 8, 0.0415154504, 0.17), ("bert32", 64, 8, 0.0202005503, 0.24),
         ("bert32", 128, 8, 0.0101208803, 0.44), ("bert32", 512, 8, 0.00256112785, 3.4),
         ("bert32", 1024, 8, 0.00130317952, 16.4), ("bert32", 2048, 8, 0.000703591184, 72.0),
         ("bert32", 32, 2, 0.0665495, 0.13), ("bert32", 64, 2, 0.0320300812, 0.22), ("bert32", 128, 2, 0.0151464079, 0.42),
         ("bert32", 128, 1, 0.03887175, 0.33), ("bert32", 8, 80, 0.122007269, 0.05), ("bert32", 32, 80, 0.0308440482, 0.18),
         ("bert32", 64, 80, 0.015650178, 0.34), ("bert32", 128, 80, 0.00805324292, 0.71),
         ("bert96", 64, 8, 0.06567437261, 3.3), ("bert96", 256, 8, 0.01559493406, 7.9), ("bert96", 1024, 8, None, 102.4)]
RUNS = [("GPT-3 175B, 1,024 H100", "gpt3.yaml", "128x8 h100 nvlink:900GB/s ib:400Gb/s")]


def insert_layer(graph, number):
    """A copy of the first layer that stands between two others goes in behind it."""
    layers = {node["id"]: node for node in graph["nodes"] if node["name"] == "ParallelTransformerLayer"}
    inner = [e for e in graph["edges"] if e["sourceId"] in layers and e["destId"] in layers]
    before = {e["destId"]: e["sourceId"] for e in inner}
    edge = {e["sourceId"]: e for e in inner}
    layer = next(id for id in sorted(layers) if id in before and id in edge)
    behind = edge[layer]["destId"]
    edge[layer]["destId"] = number
    graph["edges"].append({"sourceId": number, "destId": behind, "communicationCost": edge[layer]["communicationCost"]})
    for ways in layers[layer]["TMPCs"].values():
        for way in ways:
            way["syncTimeBw"][str(number)] = way["syncTimeBw"].pop(str(behind))
    for ways in layers[behind]["TMPCs"].values():
        for way in ways:
            way["syncTimeFw"][str(number)] = way["syncTimeFw"].pop(str(layer))
    fresh = copy.deepcopy(layers[layer])
    fresh["id"] = number
    for ways in fresh["TMPCs"].values():
        for way in ways:
            way["syncTimeFw"] = {str(layer): way["syncTimeFw"][str(before[layer])]}
            way["syncTimeBw"] = {str(behind): way["syncTimeBw"][str(number)]}
    graph["nodes"].append(fresh)


def bert96(path, to):
    with open(path, encoding="utf-8") as file:
        graph = json.load(file)
    for i in range(64):
        insert_layer(graph, 1000 + i)
    with open(to, "w", encoding="utf-8") as file:
        json.dump(graph, file)


def random_graph(seed, n, path):
    draw = random.Random(seed)
    edges = []
    for v in range(1, n):
        sources = 1 + (draw.random() < 0.3) + (draw.random() < 0.1)
        edges += [(u, v) for u in sorted({max(0, v - 1 - int(draw.expovariate(0.4))) for _ in range(sources)})]
    with open(path, "w", encoding="utf-8") as file:
        for v in range(n):
            time = draw.lognormvariate(0, 0.7)
            parameters = draw.randrange(1 << 20, 1 << 26) if draw.random() < 0.4 else 0
            file.write(f"node{v + 1} -- op -- forward_compute_time={time:.3f}, backward_compute_time={2 * time:.3f}, "
                       f"activation_size={draw.randrange(1 << 20, 1 << 25)}.0, parameter_size={parameters}.0\n")
        file.writelines(f"\tnode{u + 1} -- node{v + 1}\n" for u, v in edges)


def rows(args, work):
    for name, objective, seconds in DNN:
        found = [os.path.join(folder, "throughput-inputs", name + ".json")
                 for folder in (os.path.join(args.data, "dnn-partitioning"), args.dnn or "")]
        yield "dnn-partitioning", name, next(filter(os.path.exists, found), None), [], objective, seconds
    for name, devices, objective, seconds in PIPEDREAM:
        path = os.path.join(args.data, "pipedream", "profiles", name + ".graph.txt")
        yield "PipeDream", f"{name}, {devices} GPUs", path, ["--devices", devices, "--bandwidth", 1e10], objective, seconds
    for name, options, objective, seconds in LEVELS:
        path = os.path.join(args.data, "pipedream", "profiles", name.split(",")[0] + ".graph.txt")
        yield "PipeDream", name, path, ["--devices", 4, "--bandwidth", 1e10, *options], objective, seconds
    for expert, name, objective in HUMAN:
        folder = os.path.join(args.data, "dnn-partitioning")
        path = os.path.join(folder, "throughput-inputs", "LayerGraphs", name + ".json")
        options = ["--evaluate", os.path.join(folder, "human-experts", expert + "_expert.json")]
        yield "human", name, path, options, objective, None
    path = os.path.join(work, "random.txt")
    random_graph(args.seed, 1000, path)
    for name, cluster in RANDOM:
        yield "random", f"1,000 operators (seed {args.seed}), {name}", path, ["--cluster", cluster], None, None
    bert32 = os.path.join(args.data, "piper", "bert32a100.json")
    paths = {"bert32": bert32, "bert96": os.path.join(work, "bert96.json")}
    if os.path.exists(bert32):
        bert96(bert32, paths["bert96"])
    for name, devices, gib, objective, seconds in PIPER:
        options = ["--devices", devices, "--memory", gib * GIB, "--bandwidth", 25 * GIB]
        yield "Piper", f"{name}, {devices} devices of {gib} GiB", paths[name], options, objective, seconds


def plan(arguments):
    """What `penstock plan` prints with these arguments, and what it took."""
    child = subprocess.Popen([PENSTOCK, "plan", *map(str, arguments), "--json"], stdout=subprocess.PIPE, text=True)
    out = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, child.args)
    found = json.loads(out)
    found["seconds"], found["mib"] = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    return found


def plan_run(name, cluster):
    found = plan([os.path.join(HERE, "..", "examples", name), "--cluster", cluster])
    return {**found, "objective": found["step_s"], "unit": "s"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("PST_PLANNER_DATA", ""), help="$PST_PLANNER_DATA by default")
    parser.add_argument("--dnn", help="a checkout of msr-fiddle/dnn-partitioning")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    needs.check()
    found, left_out = [], []

    def add(planner, name, rounds, objective=None, seconds=None):
        first = rounds[0]
        found.append({"planner": planner, "workload": name, "objective": first["objective"], "gap": first.get("gap"),
                      "unit": first["unit"], "downsets": first.get("downsets"), "reference": objective,
                      "seconds": statistics.median(r["seconds"] for r in rounds), "reference_seconds": seconds,
                      "mib": max(r["mib"] for r in rounds)})

    with tempfile.TemporaryDirectory() as work:
        for planner, name, path, options, objective, seconds in rows(args, work):
            if not path or not os.path.exists(path):
                left_out.append(name)
                continue
            add(planner, name, [plan(["--graph", path, *options]) for _ in range(args.rounds)], objective, seconds)
    for name, run, cluster in RUNS:
        add("run", name, [plan_run(run, cluster) for _ in range(args.rounds)])
    if left_out:
        print(f"{len(left_out)} workloads of other planners left out: they need --data FOLDER, or --dnn CHECKOUT: "
              + ", ".join(left_out), file=sys.stderr)
    if args.json:
        print(json.dumps(found))
        return
    for row in found:
        line = f"{row['planner']:16s} {row['workload']:58s} {row['objective']:.9g} {row['unit']}"
        if row["gap"] is not None:
            downsets = f"{row['downsets']} downsets, " if row["downsets"] is not None else ""
            line += f", gap {100 * row['gap']:.2g}%, {downsets}{row['seconds']:.3f} s, {row['mib']:.0f} MiB"
        if row["reference_seconds"]:
            line += f" ({row['reference_seconds']:g} s)"
        if row["reference"]:
            line += f"  {row['objective'] / row['reference']:.6f} of the reference's"
        print(line)
    public = [row for row in found if row["gap"] is not None and row["planner"] not in ("random", "run")]
    if public:
        print(f"largest gap of {len(public)} public workloads: {100 * max(row['gap'] for row in public):.2g}%; "
              f"worse than a reference: {sum(row['objective'] > (row['reference'] or 1e99) * (1 + 1e-5) for row in public)}")


if __name__ == "__main__":
    main()
