#!/usr/bin/env python3
"""Fits what a step takes longer than kernels that are measured alone, to published steps (published_steps.json).

    bench/fit.py [--json]

Few parameters, each with a meaning: the share of a kernel's best rate that products keep in a step (`sustained` of
partition/cost/costs_product.c, by device), and per program the factor on memory-bound operators, exposed messages,
exchanges and sharded weights (partition/cost/program.c). Rows that are kept back are not read.

The steps are linear enough in the parameters: one plan per row and parameter gives the derivative of log(step), and a
robust least-squares solution (Huber, 5 %) follows. Every parameter has a prior around its value without a fit; every
source has an error of its own (10 %; free for rows of which only the ratios count), so that a device is not fitted to
what one source does otherwise. Each source weighs as 8 rows plus a tenth of its rows. Then each source is left out in
turn, and predicted by a fit of the others: the table. Needs ./dev build and numpy; about two minutes."""

import argparse
import json

import needs
import published

try:
    import numpy as np
except ImportError:
    np = None


def on(device):
    return lambda row: device in row["cluster"] and row["precision"] != "fp8"


def program(name, *keys):
    """Rows of the program whose text does not set these keys itself."""
    return lambda row: row["program"].split()[0] == name and not any(key + "=" in row["program"] for key in keys)


# name, key of --program, rows, value in the source, standard deviation of the prior, limits
PARAMETERS = [
    ("products A100", "products", on("a100"), 1, 0.1, (0.9, 1.4)),
    ("products H100", "products", on("h100"), 1, 0.15, (0.9, 1.5)),
    ("products H100 FP8", "products", lambda row: row["precision"] == "fp8", 1, 0.15, (0.8, 1.5)),
    ("moves megatron-2021", "moves", program("megatron-2021"), 0.91, 0.3, (0.7, 2.5)),
    ("moves fsdp", "moves", lambda row: row["program"] == "fsdp", 1.75, 0.3, (0.7, 2.5)),
    ("moves megatron-core", "moves", program("megatron-core"), 1.33, 0.3, (0.7, 2.5)),
    ("messages megatron-2021", "messages", program("megatron-2021"), 0.8, 0.5, (0, 4)),
    ("tensor megatron-core", "tensor", program("megatron-core"), 0.49, 0.3, (0.05, 1)),
    ("overlap megatron-core", "overlap", program("megatron-core"), 1, 0.3, (0, 1)),
    ("shards fsdp", "shards", lambda row: row["program"] == "fsdp", 0.98, 0.3, (0, 1))]
# without a fit; products are already multiplied by `sustained` of the source, which the prior undoes
PRIOR = {"products A100": 0.945, "products H100": 0.785, "products H100 FP8": 0.925, "tensor megatron-core": 0.5,
         "overlap megatron-core": 0.8, "shards fsdp": 1}
STEP = {"overlap": -0.1, "shards": -0.2}
HUBER, SOURCE, FREE = 0.05, 0.1, 0.5


def text(row, values):
    return "".join(f" {key}={values[name]:.6g}" for name, key, of, *_ in PARAMETERS if of(row))


def errors(rows, values):
    steps = published.predict_all(rows, lambda row: text(row, values))
    return np.log([p["step_s"] / row["step_s"] for p, row in zip(steps, rows)])


def linearise(rows):
    """Errors of log(step) in the source's values, and their derivatives by the parameters."""
    values = {name: value for name, _, _, value, *_ in PARAMETERS}
    base = errors(rows, values)
    slope = np.zeros((len(rows), len(PARAMETERS)))
    for j, (name, key, of, value, *_) in enumerate(PARAMETERS):
        index = [i for i, row in enumerate(rows) if of(row)]
        change = STEP.get(key, 0.1 * value)
        slope[index, j] = (errors([rows[i] for i in index], values | {name: value + change}) - base[index]) / change
    return base, slope


class Fit:
    def __init__(self, rows, base, slope):
        self.source = np.array([row["source"] for row in rows])
        names = list(dict.fromkeys(self.source))
        free = {row["source"] for row in rows if row.get("relative")}
        own = np.array([[float(a == b) for b in names] for a in self.source])
        self.base, self.slope, self.n = base, np.hstack([slope, own]), slope.shape[1]
        start = np.array([value for _, _, _, value, *_ in PARAMETERS] + [0.0] * len(names))
        middle = np.array([PRIOR.get(p[0], 1) for p in PARAMETERS] + [0.0] * len(names))
        self.start, self.offset = start, middle - start
        self.prior = np.array([p[4] for p in PARAMETERS] + [FREE if name in free else SOURCE for name in names])
        self.low = np.array([p[5][0] for p in PARAMETERS] + [-9.0] * len(names)) - start
        self.high = np.array([p[5][1] for p in PARAMETERS] + [9.0] * len(names)) - start

    def solve(self, keep):
        """Changes of the parameters, from the rows to keep."""
        weight = np.zeros(len(self.base))
        for name in set(self.source[keep]):
            own = keep & (self.source == name)
            weight[own] = min(own.sum(), 8 + 0.1 * own.sum()) / own.sum()
        x = np.zeros(self.slope.shape[1])
        for _ in range(60):
            w = weight / np.maximum(1, np.abs(self.base + self.slope @ x) / HUBER)
            a = (self.slope * w[:, None]).T @ self.slope / HUBER**2 + np.diag(1 / self.prior**2)
            b = -(self.slope * w[:, None]).T @ self.base / HUBER**2 + self.offset / self.prior**2
            x = self.bounded(a, b)
        return x[:self.n]

    def bounded(self, a, b):
        x, free = np.zeros(len(b)), np.ones(len(b), bool)
        while True:
            x[free] = np.linalg.solve(a[np.ix_(free, free)], b[free] - a[np.ix_(free, ~free)] @ x[~free])
            bad = free & ((x < self.low) | (x > self.high))
            if not bad.any():
                return x
            x[bad] = np.clip(x, self.low, self.high)[bad]
            free &= ~bad

    def left_out(self):
        """Each row's error, with its source left out."""
        found = np.zeros(len(self.base))
        for name in set(self.source):
            own = self.source == name
            found[own] = (self.base + self.slope[:, :self.n] @ self.solve(~own))[own]
        return np.exp(found) - 1


def parameters_of(row):
    model = row["model"]
    if "layers" not in model:
        return 7e9
    return 12 * model["layers"] * model["channels"]**2 + model["vocabulary"] * model["channels"]


def percentiles(rows, found):
    lines = []
    for device, least, most in (("a100", 0, 1e9), ("a100", 1e9, 1e10), ("a100", 1e10, 1e14), ("h100", 0, 1e14)):
        own = [e for e, row in zip(found, rows) if device in row["cluster"] and least <= parameters_of(row) < most]
        low, high = np.quantile(own, [0.1, 0.9])
        lines.append({"device": device, "parameters": least, "rows": len(own), "low": low, "high": high,
                      "deviation": float(np.std(own))})
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    needs.check()
    if np is None:
        raise SystemExit("fit.py: needs numpy (Debian package python3-numpy)")
    rows = [row for row in published.load()["rows"] if not row["kept_back"]]
    fit = Fit(rows, *linearise(rows))
    change = fit.solve(np.ones(len(rows), bool))
    values = {p[0]: float(v) for p, v in zip(PARAMETERS, fit.start[:fit.n] + change)}
    found = fit.left_out()
    counted = [i for i, row in enumerate(rows) if not row.get("relative")]
    table = {}
    for name in [*dict.fromkeys(rows[i]["source"] for i in counted), "all"]:
        table[name] = published.statistics([found[i] for i in counted if name in ("all", rows[i]["source"])])
    ranges = percentiles([rows[i] for i in counted], [found[i] for i in counted])
    if args.json:
        print(json.dumps({"values": values, "left_out": table, "percentiles": ranges}, indent=2))
        return
    print("| parameter | value (products: multiply the durations) |\n|---|---|")
    for name, value in values.items():
        print(f"| {name} | {value:.3f} |")
    print("\n| source left out | rows | mean error | signed | largest |\n|---|---|---|---|---|")
    for name, line in table.items():
        print(f"| {name} | {line['rows']} | {line['mean']:.1%} | {line['signed']:+.1%} | {line['largest']:.1%} |")
    print("\n| device | parameters from | rows | 10th | 90th percentile | deviation |\n|---|---|---|---|---|---|")
    for line in ranges:
        print(f"| {line['device']} | {line['parameters']:.0e} | {line['rows']} | {line['low']:+.1%} | {line['high']:+.1%} "
              f"| {line['deviation']:.1%} |")


if __name__ == "__main__":
    main()
