#!/usr/bin/env python3
"""`penstock plan` on layouts whose step times were published, beside what was measured and what Calculon says.

    bench/published.py [--json]

Korthikanti et al. 2022 (arXiv 2205.05198), table 5: GPT of 22 billion to 1 trillion parameters on Selene (nodes of eight
A100-80 with NVLink, eight 200 Gb/s InfiniBand adapters a node), with full recomputation, and with selective
recomputation and the sequence in parts; its table 3 has the layouts. Calculon's errors are those of its own validation
(github.com/calculon-ai/calculon, `calculon llm-validation`, whose system file a100_80e.json is of that machine). Our
rates are of data sheets and of measurements of kernels (partition/cost/costs_device.c); nothing was set by these steps.

The operators that are modelled never store attention's scores, as is usual since FlashAttention; the program that was
measured did. The second prediction adds that by the same rates: products of a head's depth, and the scores' way
through memory, for every block and pass. It is worked out here, not by penstock. Devices may use 96 GiB, for stages of
the largest model would keep 3 GiB more than the 80 that they have. Needs ./dev build."""

import argparse
import json
import os
import subprocess
import tempfile

import needs
from needs import PENSTOCK

# name, layers, heads, channels, pipeline, micro-batch, batch, chunks, {way: (measured s, Calculon's error)}
ROWS = [("22B", 48, 64, 6144, 1, 4, 4, 1, {"full": (1.42, -0.0172), "selective": (1.10, 0.0333)}),
        ("175B", 96, 96, 12288, 8, 1, 64, 3, {"full": (18.13, -0.0056), "selective": (13.75, -0.0081)}),
        ("530B", 105, 128, 20480, 35, 1, 280, 3, {"full": (49.05, 0.0172), "selective": (37.83, -0.0887)}),
        ("1T", 128, 160, 25600, 64, 1, 512, 1, {"full": (94.42, -0.0460), "selective": (71.49, -0.0762)})]
TENSOR, CONTEXT, VOCABULARY = 8, 2048, 51200

# As partition/cost/costs_device.c has them, of an A100-80.
PEAK, MEMORY, LAUNCH, DEPTH = 312e12 * 0.869, 2039e9 * 0.85, 3e-6, 160
FUSED = {"forward": 312e12 * 0.65 * CONTEXT / (CONTEXT + 400), "backward": 312e12 * 0.53 * CONTEXT / (CONTEXT + 400)}


def run_file(row, way):
    _, layers, heads, channels, pipeline, micro, batch, chunks, _ = row
    schedule = "interleaved" if chunks > 1 else "1f1b"
    return f"""
model: {{kind: gpt, layers: {layers}, heads: {heads}, channels: {channels}, context: {CONTEXT}, vocabulary: {VOCABULARY},
        dropout: 0.1}}
data: {{paths: [text]}}
train: {{batch: {batch}, micro_batch: {micro}, precision: fp16}}
parallel: {{pipeline: {pipeline}, tensor: {TENSOR}, data: 1, schedule: {schedule}, recompute: {way}, zero: 0,
           sequence: {"true" if way == "selective" else "false"}{f", chunks: {chunks}" if chunks > 1 else ""}}}
"""


def predict(row, way):
    cluster = f"{row[4]}x8 a100-80 memory:96GiB nvlink:600GB/s ib:8x200Gb/s"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(run_file(row, way))
        done = subprocess.run([PENSTOCK, "plan", path, "--cluster", cluster, "--json"], capture_output=True, text=True,
                              check=True)
    plan = json.loads(done.stdout)
    layout = plan["layout"] or plan["rows"][0]["layout"]
    return {"step_s": layout["predicted"]["step_s"], "exact": layout["predicted"]["exact"], "fits": plan["fits"],
            "seconds": plan["searched"]["seconds"]}


def product(batch, m, n, k):
    return LAUNCH + batch * 2 * m * n * (k + DEPTH) / PEAK


def stored_scores(row):
    """By how much longer a step is when scores are stored. Forward: written, scaled and masked with softmax, dropped
    from, multiplied; backward: two products that write, dropout and softmax, three that read. A mask has a byte each."""
    _, layers, heads, channels, pipeline, micro, batch, chunks, _ = row
    many, head = micro * heads // TENSOR, channels // heads
    scores = many * CONTEXT * CONTEXT
    moved = {"forward": (2 * (1 + 2 + 2 + 1) + 1) * scores, "backward": (2 * (1 + 1 + 2 + 3 + 2) + 1) * scores}
    deep, shallow = product(many, CONTEXT, head, CONTEXT), product(many, CONTEXT, CONTEXT, head)
    products = {"forward": deep + shallow, "backward": 3 * deep + shallow}
    useful = {"forward": 2 * scores * head, "backward": 5 * scores * head}  # half of each, for the mask
    more = {p: products[p] + moved[p] / MEMORY + 2 * LAUNCH - useful[p] / FUSED[p] for p in moved}
    block = 2 * more["forward"] + more["backward"]  # both ways of recomputation run it again
    return block * layers / pipeline * (batch / micro + (pipeline - 1) / chunks)


def measure():
    rows = []
    for row in ROWS:
        for way, (measured, calculon) in row[8].items():
            p = predict(row, way)
            stored = p["step_s"] + stored_scores(row)
            rows.append({"model": row[0], "recompute": way, "measured_s": measured, "predicted_s": p["step_s"],
                         "error": p["step_s"] / measured - 1, "stored_s": stored, "stored_error": stored / measured - 1,
                         "calculon_error": calculon, "fits": p["fits"], "exact": p["exact"], "seconds": p["seconds"]})
    return rows


def mean(rows, key):
    return sum(abs(r[key]) for r in rows) / len(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    needs.check()
    rows, keys = measure(), ("error", "stored_error", "calculon_error")
    means, most = {k: mean(rows, k) for k in keys}, {k: max(abs(r[k]) for r in rows) for k in keys}
    if args.json:
        print(json.dumps({"rows": rows, "mean": means, "max": most}, indent=2))
        return
    print("| model | recomputation | measured | predicted | error | with stored scores | error | Calculon's error |")
    print("|---|---|---|---|---|---|---|---|")
    for r in rows:
        print(f"| {r['model']} | {r['recompute']} | {r['measured_s']:.2f} s | {r['predicted_s']:.2f} s | "
              f"{r['error']:+.1%} | {r['stored_s']:.2f} s | {r['stored_error']:+.1%} | {r['calculon_error']:+.1%} |")
    ends = [f"{means[k]:.1%} ({most[k]:.1%})" for k in keys]
    print(f"| mean (most) | | | | {ends[0]} | | {ends[1]} | {ends[2]} |")


if __name__ == "__main__":
    main()
