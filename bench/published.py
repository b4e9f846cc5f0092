#!/usr/bin/env python3
"""`penstock plan --program` on layouts whose step times were published, beside what was measured.

    bench/published.py [--source NAME] [--rows] [--json] [--fits]

The rows and their sources are in published_steps.json. Rows that are kept back are never used by fit.py, which sets the
costs from the others; its table of sources left out is the fair one for these. Layouts are planned with unlimited
memory: durations are compared, not memory; --fits plans with the memory of the devices instead, and says which layouts fit.
`inside`: share of the rows within the range that the plan prints.
Needs ./dev build; about three minutes on two cores."""

import argparse
import concurrent.futures
import json
import os
import subprocess
import tempfile

import needs
from needs import PENSTOCK

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "published_steps.json")


def load():
    with open(DATA, encoding="utf-8") as file:
        return json.load(file)


def run_file(row):
    model = ", ".join(f"{key}: {value}" for key, value in row["model"].items())
    keys = [f"{key}: {row[key]}" for key in ("pipeline", "tensor", "data", "recompute", "zero")]
    keys.append("schedule: " + ("interleaved" if row["chunks"] > 1 else "1f1b"))
    if row["tensor"] > 1:
        keys.append(f"sequence: {'true' if row['sequence'] else 'false'}")
    if row["chunks"] > 1:
        keys.append(f"chunks: {row['chunks']}")
    return (f"model: {{{model}}}\ndata: {{paths: [text]}}\n"
            f"train: {{batch: {row['batch']}, micro_batch: {row['micro_batch']}, precision: {row['precision']}}}\n"
            f"parallel: {{{', '.join(keys)}}}\n")


def plan(row, more="", memory="memory:4TiB"):
    """The finished `penstock plan` of a row; more: changed values of the program's profile."""
    nodes, kind, links = row["cluster"].split(" ", 2)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(run_file(row))
        return subprocess.run([PENSTOCK, "plan", path, "--cluster", f"{nodes} {kind} {memory} {links}", "--json",
                               "--program", row["program"] + more], capture_output=True, text=True, check=False)


def predict(row, more=""):
    """The prediction for a row, as in the plan's JSON."""
    done = plan(row, more)
    if done.returncode:
        raise RuntimeError(f"{row['source']} {row['name']}: {done.stderr.strip()}")
    return json.loads(done.stdout)["layout"]["predicted"]


def predict_all(rows, more=lambda row: ""):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda row: predict(row, more(row)), rows))


def fits(rows):
    """The row, whether its layout fits in the devices, the bytes of its largest rank and what a rank may use."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for row, done in zip(rows, pool.map(lambda row: plan(row, memory=""), rows)):
            if done.returncode not in (0, 4):
                raise RuntimeError(f"{row['source']} {row['name']}: {done.stderr.strip()}")
            found = json.loads(done.stdout)
            layout = found["layout"] or found["rows"][0]["layout"]
            yield row, found["fits"], max(layout["predicted"]["peak_bytes"]), found["memory"]["usable_bytes"]


def print_fits(rows):
    for row, fit, needs_bytes, usable in fits(rows):
        print(f"{row['source']:20s} {row['name']:36s} {'fits' if fit else 'does not fit':12s} "
              f"{needs_bytes / 1e9:6.1f} of {usable / 1e9:.1f} GB")


def statistics(errors):
    return {"rows": len(errors), "mean": sum(abs(e) for e in errors) / len(errors), "signed": sum(errors) / len(errors),
            "largest": max((abs(e) for e in errors), default=0)}


def compare(rows):
    found = []
    for row, p in zip(rows, predict_all(rows)):
        measured = row["step_s"]
        found.append({"source": row["source"], "name": row["name"], "kept_back": row["kept_back"],
                      "relative": row.get("relative", False), "measured_s": measured, "predicted_s": p["step_s"],
                      "error": p["step_s"] / measured - 1, "inside": p["step_low_s"] <= measured <= p["step_high_s"]})
    return found


def summary(found):
    lines = {}
    for row in found:
        if row["relative"]:
            continue
        for name in (row["source"], "all kept back" if row["kept_back"] else "all fitted"):
            lines.setdefault(name, []).append(row)
    return {name: statistics([r["error"] for r in rows]) | {"inside": sum(r["inside"] for r in rows) / len(rows)}
            for name, rows in lines.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rows", action="store_true", help="print every row")
    parser.add_argument("--source", help="only rows of this source")
    parser.add_argument("--fits", action="store_true", help="whether the layouts fit in the memory of the devices")
    args = parser.parse_args()
    needs.check()
    rows = [row for row in load()["rows"] if args.source in (None, row["source"])]
    if args.fits:
        print_fits(rows)
        return
    found = compare(rows)
    if args.json:
        print(json.dumps({"rows": found, "sources": summary(found)}, indent=2))
        return
    for row in found if args.rows else []:
        print(f"{row['source']:20s} {row['name']:36s} {row['measured_s']:9.3f} s {row['predicted_s']:9.3f} s "
              f"{row['error']:+7.1%}{'' if row['inside'] else '  outside'}")
    print("| source | rows | mean error | signed | largest | inside the range |")
    print("|---|---|---|---|---|---|")
    for name, line in summary(found).items():
        print(f"| {name} | {line['rows']} | {line['mean']:.1%} | {line['signed']:+.1%} | {line['largest']:.1%} | "
              f"{line['inside']:.0%} |")


if __name__ == "__main__":
    main()
