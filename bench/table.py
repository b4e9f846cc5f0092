#!/usr/bin/env python3
"""The speed table: every row beside its peers, in turn, medians of several rounds, with what is wanted.

    bench/table.py [--rows NAME,...] [--rounds N] [--isa LEVEL] [--llmc FOLDER] [--json FILE] [--list]
    bench/table.py --from FILE [FILE ...] [--markdown]

Everything runs on two threads. PyTorch runs in all of its forms (eager and compiled, malloc as it is and tuned:
bench/forms.py), at least five timed steps each, and ours is compared with the form whose median is best, by name. Peers
that are not here (PyTorch, llm.c, ucx_perftest) are left out, and their rows say what they need. PST_TORCH_PYTHON names
the Python that ./dev bench starts this with. The findings are written to FILE (bench/results/DATE.json by default)
after every round. --from prints such files again, --markdown as tables for docs/measurements.md: one table for each kind
of processor and instruction set. Ratios are taken round by round; a check counts by its median. --isa lowers the
instruction set of penstock and of PyTorch alike. Needs ./dev build."""

import argparse
import datetime
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import contenders  # pylint: disable=wrong-import-position
import rows  # pylint: disable=wrong-import-position

# What keeps everybody to an instruction set: penstock; PyTorch's products (oneDNN, MKL), its kernels and compiled code.
ISA = {"avx2": {"PENSTOCK_ISA": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
                "ATEN_CPU_CAPABILITY": "avx2"},
       "avx512": {"PENSTOCK_ISA": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "MKL_ENABLE_INSTRUCTIONS": "AVX512",
                  "ATEN_CPU_CAPABILITY": "avx512"}}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", default=",".join(rows.ROWS), help="names, separated by commas; all by default")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--isa", choices=ISA, help="the instruction set of all, if the processor has it")
    p.add_argument("--llmc", default=os.environ.get("LLMC"), help="a checkout of llm.c; $LLMC by default")
    p.add_argument("--json", help="file to write")
    p.add_argument("--from", dest="source", nargs="+", help="print these files instead of measuring")
    p.add_argument("--markdown", action="store_true")
    p.add_argument("--list", action="store_true", help="name the rows and stop")
    args = p.parse_args()
    args.rows = [name for name in args.rows.split(",") if name]
    wrong = [name for name in args.rows if name not in rows.ROWS]
    if wrong or args.rounds < 1:
        p.error(f"no row '{wrong[0]}'; there are: {', '.join(rows.ROWS)}" if wrong else "--rounds must be at least 1")
    return args


# --- where and with what ---------------------------------------------------------------------------------------------

def text_of(command):
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def cpu_family():
    """Tells processors apart whose name is the same, as those of clouds are."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            found = dict(re.findall(r"^(cpu family|model)\s*: *(\d+)$", f.read(), re.M))
        return f"family {found['cpu family']}, model {found['model']}"
    except (OSError, KeyError):
        return None


def machine():
    found = contenders.doctor()
    cpu = found["cpu"]
    return {"cpu": cpu.get("model"), "family": cpu_family(), "usable": cpu.get("usable"), "kernels": cpu.get("kernels"),
            "memory_bytes": found["memory"].get("total_bytes"), "system": platform.platform(),
            "load": os.getloadavg() if hasattr(os, "getloadavg") else None,
            "versions": {"penstock": found["penstock"], **found["libraries"], "torch": contenders.torch_version(),
                         "commit": text_of(["git", "-C", contenders.HERE, "rev-parse", "--short", "HEAD"])}}


# --- measuring -------------------------------------------------------------------------------------------------------

def one_run(name, run, left_out):
    """A result, or None when the peer is missing or failed, which is said once, and by the table."""
    try:
        return run()
    except (contenders.Absent, contenders.Failed) as why:
        if left_out.get(name) != str(why):
            print(f"  {name}: {why}", file=sys.stderr, flush=True)
        left_out[name] = str(why)
        return None


def summary(result):
    if not result:
        return "-"
    return f"{result['tokens_per_s']:.0f} tok/s" if "tokens_per_s" in result else "done"


def measure(name, args, save):
    """The row's findings; save(findings) after every round."""
    what, _, own_rounds, make = rows.ROWS[name]
    run, checks = make(args)
    results = {contender: [] for contender in run}
    command = f"./dev bench --rows {name} --rounds {args.rounds}" + (f" --isa {args.isa}" if args.isa else "")
    found = {"name": name, "what": what, "command": command, "left_out": {}}
    for number in range(1 if own_rounds else args.rounds):
        order = list(run)
        order = order[number % len(order):] + order[:number % len(order)]
        for contender in order:
            result = one_run(contender, run[contender], found["left_out"])
            found["left_out"].update((result or {}).get("left_out", {}))
            results[contender].append(result)
        print(f"  round {number + 1}: " + ", ".join(f"{k} {summary(v[-1])}" for k, v in results.items()),
              file=sys.stderr,
              flush=True)
        found["runs"] = results
        found["figures"] = figures(results)
        try:
            found["checks"] = checks(results)
        except (KeyError, TypeError, IndexError) as why:
            found["checks"] = [{"what": f"cannot be told: {why!r}", "state": "MISSED", "wanted": None, "sense": ""}]
        save(found)
    return found


def figures(results):
    out = []
    for contender, list_ in results.items():
        for key, unit in (("tokens_per_s", "tok/s"), ("step_ms", "ms"), ("peak_mib", "MiB")):
            values = [r[key] for r in list_ if r and isinstance(r.get(key), (int, float))]
            if values:
                out.append({"contender": contender, "unit": unit, **rows.spread(values)})
    return out


# --- output ----------------------------------------------------------------------------------------------------------

def number(x):
    return f"{x:.3f}" if abs(x) < 10 else f"{x:.0f}" if abs(x) >= 1000 else f"{x:.1f}"


def processor(m):
    family = f" ({m['family']})" if m.get("family") else ""
    return f"{m['usable']} x {m['cpu']}{family}, {m['kernels']} kernels"


def reasons(found):
    """[(those that were left out for the same reason, the reason)]"""
    why = {}
    for name, reason in found.get("left_out", {}).items():
        why.setdefault(reason, []).append(name)
    return [(", ".join(names), reason) for reason, names in why.items()]


def show(found, out):
    print(f"\n{found['what']}", file=out)
    for f in found.get("figures", []):
        print(f"  {f['contender']:<24} {number(f['median']):>8} {f['unit']:<6} "
              f"({number(f['min'])} to {number(f['max'])})",
              file=out)
    for names, reason in reasons(found):
        print(f"  {names}: left out: {reason}", file=out)
    for c in found["checks"]:
        wanted = f"wanted {c['sense']} {c['wanted']}" if c.get("wanted") is not None else ""
        value = f"{c['median']:.3f} ({c['min']:.3f} to {c['max']:.3f}) {c['unit']}" if "median" in c else ""
        print(f"  {c['what'] + ':':<60} {value:<26} {wanted:<14} {c['state']}", file=out)


def about(m):
    versions = ", ".join(f"{k} {v}" for k, v in m["versions"].items() if v)
    load = f"; load at the start {m['load'][0]:.1f}" if m.get("load") else ""
    return f"{processor(m)}, {m['memory_bytes'] / 2**30:.0f} GiB{load}. Versions: {versions}"


def markdown_rows(table, out):
    for found in table["rows"]:
        lead, command = f"{found['what']}: ", f"`{found['command']}`"
        lines = [(f["contender"], f"{number(f['median'])} {f['unit']} | "
                                   f"{number(f['min'])}-{number(f['max'])} | {f['n']}")
                 for f in found.get("figures", []) if f["unit"] != "ms"]
        for c in found["checks"]:
            wanted = f" (wanted {c['sense']} {c['wanted']}: {c['state']})" if c.get("wanted") is not None else ""
            lines.append((c["what"] + wanted, f"{number(c['median'])} {c['unit']} | "
                                               f"{number(c['min'])}-{number(c['max'])} | {c['n']}"
                          if "median" in c else "no peer | |"))
        lines += [(f"{names} left out: {reason}", "| |") for names, reason in reasons(found)]
        for what, value in lines:
            print(f"| {lead}{what} | {command} | {table['date']} | {value} |", file=out)
            lead = "... "
            command = "same"


def markdown(tables, out):
    """One table for each kind of processor and instruction set."""
    kinds = {}
    for table in tables:
        kinds.setdefault(processor(table["machine"]), []).append(table)
    for kind, of_kind in kinds.items():
        print(f"### {kind}\n", file=out)
        for about_it in dict.fromkeys(about(table["machine"]) for table in of_kind):
            print(f"Machine: {about_it}.\n", file=out)
        print("| what | command | date | median | spread | of N |\n|---|---|---|---|---|---|", file=out)
        for table in of_kind:
            markdown_rows(table, out)
        print(file=out)


def print_tables(tables, as_markdown):
    if as_markdown:
        markdown(tables, sys.stdout)
        return
    for table in tables:
        print_table(table)


def print_table(table):
    print(f"{table['date']}, {about(table['machine'])}")
    for found in table["rows"]:
        show(found, sys.stdout)
    states = [c["state"] for found in table["rows"] for c in found["checks"]]
    print(f"\n{states.count('reached')} reached, {states.count('MISSED')} missed, "
          f"{states.count('no peer')} without a peer")


def read(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def default_file():
    folder = os.path.join(contenders.HERE, "results")
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, datetime.datetime.now().strftime("%Y-%m-%d-%H%M%S.json"))


def main():
    args = arguments()
    if args.list:
        for name, (what, seconds, _, _) in rows.ROWS.items():
            print(f"{name:<14} {what} (about {seconds} s a round)")
        return
    if args.source:
        print_tables([read(path) for path in args.source], args.markdown)
        return
    for number in (signal.SIGINT, signal.SIGTERM):  # the programs that it started end, too
        signal.signal(number, signal.default_int_handler)
    os.environ.update(ISA.get(args.isa, {}))
    path = args.json or default_file()
    seconds = sum(rows.ROWS[name][1] for name in args.rows) * args.rounds
    print(f"{len(args.rows)} rows, {args.rounds} rounds: about {seconds / 60:.0f} minutes on two idle cores; "
          "findings go to "
          f"{path}", file=sys.stderr, flush=True)
    table = {"date": datetime.date.today().isoformat(), "machine": machine(), "rounds": args.rounds, "rows": []}

    def save(found):
        with open(path + ".new", "w", encoding="utf-8") as f:
            json.dump({**table, "rows": table["rows"] + [found]}, f, indent=1)
        os.replace(path + ".new", path)

    with tempfile.TemporaryDirectory() as work:
        args.work = work
        for name in args.rows:
            began = time.monotonic()
            print(f"{name}: {rows.ROWS[name][0]}", file=sys.stderr, flush=True)
            found = measure(name, args, save)
            found["seconds"] = time.monotonic() - began
            table["rows"].append(found)
    print_tables([table], args.markdown)


if __name__ == "__main__":
    main()
