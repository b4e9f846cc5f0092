"""The rows of the speed table (bench/table.py runs them): who runs, and what is wanted of the results. A row's `run`
maps names to functions of no argument (see contenders.py); `checks` turns the results, {name: [a result per round]},
into checks."""

import functools
import statistics

import contenders as c
import forms

SIX = "kind: gpt, layers: 6, heads: 6, channels: 384, context: 256"
MICRO, STAGES = 8, 2
EFFICIENCY = MICRO * 3 / (MICRO * 3 + (STAGES - 1) * 2)  # of 1f1b-early with F = B = W: docs/metrics.md


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "n": len(values)}


def check(what, values, wanted=None, sense=">=", unit=""):
    """values: one per round; none: there is no peer."""
    row = {"what": what, "wanted": wanted, "sense": sense, "unit": unit}
    if not values:
        return {**row, "state": "no peer"}
    row.update(spread(values))
    if wanted is None:
        return {**row, "state": ""}
    reached = row["median"] >= wanted if sense == ">=" else row["median"] <= wanted
    return {**row, "state": "reached" if reached else "MISSED"}


def per_round(results, names, value):
    """value(result of each name) for every round in which all of them have one."""
    rounds = zip(*(results.get(name) or [] for name in names))
    return [value(*each) for each in rounds if all(each)]


def rate(result):
    return result["tokens_per_s"]


def fastest(results, peers):
    """The peer, or form of one, with the highest median rate of those that are here; None: there is none."""
    here = {name: [rate(r) for r in results.get(name) or [] if r] for name in peers}
    medians = {name: statistics.median(rates) for name, rates in here.items() if rates}
    return max(medians, key=medians.get) if medians else None


def ratio(results, ours, peers, wanted, factor=1.0, what=None):
    """Ours over the fastest of the peers, round by round, over `factor`; says which one that was."""
    best = fastest(results, peers)
    values = per_round(results, [ours, best], lambda o, p: rate(o) / rate(p) / factor) if best else []
    found = check(what or f"{ours} / {best or peers[0].split()[0]}", values, wanted)
    if len(peers) > 1 and best:
        here = sum(any(results.get(name) or []) for name in peers)
        found["what"] += f", the fastest of {here} forms" + (f" ({len(peers)} were tried)" if here < len(peers) else "")
        found["peer"] = best
    return found


def memory(results, ours, peers):
    """Beside the form that takes least."""
    sizes = {name: [r["peak_mib"] for r in results.get(name) or [] if r] for name in peers}
    medians = {name: statistics.median(found) for name, found in sizes.items() if found}
    if not medians:
        return check(f"resident memory, {ours} / {peers[0].split()[0]}", [], 1.0, "<=")
    least = min(medians, key=medians.get)
    values = per_round(results, [ours, least], lambda o, p: o["peak_mib"] / p["peak_mib"])
    return check(f"resident memory, {ours} / {least}, the smallest", values, 1.0, "<=")


def rest(results, wanted):
    values = [1 - r["work"]["linear"] for r in results["penstock"] if r]
    return check("all but products, of the step", values, wanted, "<=")


def torch_forms(call, *arguments, name="torch", of=forms.FORMS):
    """{contender: a run} of a PyTorch peer in all of its forms."""
    return {f"{name} {form}": functools.partial(call, form, *arguments) for form in of}


def gpt2(args, context, wanted, wanted_llmc, with_rest):
    model, batch = f"kind: gpt, preset: gpt2, context: {context}", 4
    torch = torch_forms(c.torch, "gpt2", batch, context)
    run = {"penstock": lambda: c.penstock(model, batch, batch, forms.STEPS), **torch,
           "llm.c": lambda: c.llmc(args.llmc, args.work, batch, context, forms.STEPS)}

    def checks(results):
        out = [ratio(results, "penstock", list(torch), wanted), ratio(results, "penstock", ["llm.c"], wanted_llmc),
               memory(results, "penstock", list(torch))]
        return out + ([rest(results, 0.12)] if with_rest else [])
    return run, checks


def small(preset, model, batch, context, steps, wanted):
    torch = torch_forms(c.torch, preset, batch, context, steps)
    run = {"penstock": lambda: c.penstock(model, batch, batch, steps), **torch}
    return run, lambda results: [ratio(results, "penstock", list(torch), wanted),
                                 memory(results, "penstock", list(torch))]


def pipeline(_args):
    """PyTorch's schedules that separate the gradients of weights run eagerly only."""
    model = "kind: gpt, preset: gpt2, context: 128"
    eager = [form for form, (mode, _) in forms.FORMS.items() if mode == "eager"]
    torch = torch_forms(c.torch_pipeline, "1f1b", 128, MICRO, name="torch 1f1b")
    for schedule in ("zb-v", "dualpipev"):
        torch.update(torch_forms(c.torch_pipeline, schedule, 128, MICRO, name=f"torch {schedule}", of=eager))
    run = {"two ranks": lambda: c.penstock(model, MICRO, 1, forms.STEPS, ranks=2, threads=1, schedule="1f1b-early"),
           "one rank": lambda: c.penstock(model, MICRO, 1, forms.STEPS), **torch}

    def checks(results):
        own = per_round(results, ["two ranks", "one rank"],
                        lambda two, one: rate(two) / rate(one) / (1 - two["predicted_bubble"]))
        return [ratio(results, "two ranks", ["one rank"], 0.95, EFFICIENCY,
                      f"two ranks / one rank / {EFFICIENCY:.3f} (the schedule's efficiency with F = B = W)"),
                check("two ranks / one rank / (1 - bubble simulated with measured durations)", own),
                ratio(results, "two ranks", list(torch), 1.4)]
    return run, checks


def replicas(_args):
    """Two processes of one thread each against one of two: the same global batch."""
    model, batch, micro, context = "kind: gpt, preset: gpt2, context: 128", 8, 4, 128
    torch = torch_forms(c.torch_replicas, context, batch, micro, name="torch DDP")
    run = {"two replicas": lambda: c.penstock(model, batch, micro, forms.STEPS, ranks=2, threads=1, replicas=2),
           "one rank": lambda: c.penstock(model, batch, micro, forms.STEPS), **torch}

    def checks(results):
        return [ratio(results, "two replicas", ["one rank"], 0.95), ratio(results, "two replicas", list(torch), 1.4)]
    return run, checks


def step_seconds(result):
    """All products of a step."""
    return sum(s * forms.PRODUCTS[name.split()[0]] for name, s in result["seconds"].items())


def shape_ratios(results, ours, torch, precision):
    """{product: [PyTorch's time over ours, per round]}"""
    rounds = per_round(results, [ours, torch], lambda o, t: {name: t["seconds"][name] / o[precision]["seconds"][name]
                                                             for name in t["seconds"]})
    return {name: [each[name] for each in rounds] for name in (rounds[0] if rounds else {})}


def counted(threads):
    return f"{threads} thread{'s' * (threads > 1)}"


def products_beside(results, threads, precision, wanted, wanted_each):
    """Speed of all products of a step and of the slowest one, beside PyTorch's."""
    ours, torch = f"penstock, {counted(threads)}", f"torch {precision}, {counted(threads)}"
    lead = f"{precision} products, {counted(threads)}, penstock / torch"
    whole = per_round(results, [ours, torch], lambda o, t: step_seconds(t) / step_seconds(o[precision]))
    each = shape_ratios(results, ours, torch, precision)
    least = min(each, key=lambda name: statistics.median(each[name])) if each else None
    return [check(f"{lead}, all of a step", whole, wanted),
            check(f"{lead}, the least of all shapes" + (f": {least}" if least else ""), each.get(least), wanted_each)]


def products(_args):
    """On a processor without bf16 only fp32 counts."""
    run = {}
    for threads in (1, 2):
        run[f"penstock, {counted(threads)}"] = functools.partial(c.products, threads)
        for precision in ("fp32", "bf16"):
            run[f"torch {precision}, {counted(threads)}"] = functools.partial(c.torch_products, threads, precision)

    def checks(results):
        out = []
        for threads in (1, 2):
            ours = [r for r in results[f"penstock, {counted(threads)}"] if r]
            out += products_beside(results, threads, "fp32", 1.05, 0.95)
            out.append(check(f"fp32 products / FMA peak, {counted(threads)}", [r["fp32"]["of_peak"] for r in ours], 0.85))
            if all("bf16" in r for r in ours):
                faster = [step_seconds(r["fp32"]) / step_seconds(r["bf16"]) for r in ours]
                out.append(check(f"bf16 products / fp32 products, speed, {counted(threads)}", faster, 1.8))
                out += products_beside(results, threads, "bf16", 1.0, None)
        return out
    return run, checks


def bert(_args):
    torch = torch_forms(c.bert, 8, 128)
    run = {"penstock": lambda: c.penstock("kind: bert, preset: base, context: 128, next_sentence: false", 8, 8, forms.STEPS, kind="lines"), **torch}
    return run, lambda results: [ratio(results, "penstock", list(torch), 1.2),
                                 memory(results, "penstock", list(torch))]


def llama(_args):
    """Memory beside weights, gradients and AdamW's moments, which take 16 bytes a parameter on both sides."""
    layers, batch, context = 4, 2, 512
    torch = torch_forms(c.llama, batch, context, layers)
    model = f"kind: llama, preset: tinyllama-1.1b, layers: {layers}, context: {context}"
    of_layer = 2 * 2048 + 2 * 2048 * 2048 + 2 * 256 * 2048 + 3 * 2048 * 5632
    states = 16 * (2 * 32000 * 2048 + 2048 + layers * of_layer) / 2**20
    run = {"penstock": lambda: c.penstock(model, batch, batch, forms.STEPS), **torch}

    def checks(results):
        sizes = {name: [r["peak_mib"] for r in results.get(name) or [] if r] for name in torch}
        medians = {name: statistics.median(found) for name, found in sizes.items() if found}
        least = min(medians, key=medians.get) if medians else None
        above = per_round(results, ["penstock", least],
                          lambda o, p: (o["peak_mib"] - states) / (p["peak_mib"] - states)) if least else []
        return [ratio(results, "penstock", list(torch), 1.2),
                check(f"resident memory above 16 bytes a parameter, penstock / {least or 'torch'}, the smallest", above, 0.6,
                      "<=")]
    return run, checks


def resnet(net, model, kind, batch):
    """PyTorch also with channels last, as ours are."""
    torch = {**torch_forms(c.resnet, net), **{f"torch channels-last {form}": functools.partial(c.resnet, form, net, "--channels-last")
                                              for form in forms.FORMS}}
    run = {"penstock": lambda: c.step(model, kind, batch), **torch}
    return run, lambda results: [ratio(results, "penstock", list(torch), 1.15),
                                 memory(results, "penstock", list(torch))]


def judged(what, found, wanted, sense, unit=""):
    """A check from {median, min, max, ...} that another program has measured; found None: there is no peer."""
    row = {"what": what, "wanted": wanted, "sense": sense, "unit": unit}
    if not found:
        return {**row, "state": "no peer"}
    row.update({k: found[k] for k in ("median", "min", "max")}, n=found.get("n", found.get("laps", 0)))
    if wanted is None:
        return {**row, "state": ""}
    reached = row["median"] >= wanted if sense == ">=" else row["median"] <= wanted
    return {**row, "state": "reached" if reached else "MISSED"}


def of_script(name, adapt):
    """A row that another program of bench/ measures, with rounds of its own. adapt: from what it found to checks."""
    def make(args):
        def checks(results):
            found = adapt(results[name][0]["found"]) if any(results[name]) else [check(f"bench/{name}.py", [])]
            return [{**row, "n": row.get("n") or args.rounds} for row in found]
        return {name: lambda: c.script(name, args.rounds)}, checks
    return make


def timed_checks(found):
    return [judged(f"{ranks}: measured / simulated makespan", row, row["wanted"], "<=") for ranks, row in found.items()]


def schedules_checks(found):
    return [judged(f"{row['schedule']}, {row['stages']} stages: measured / simulated makespan", row, row["wanted"], "<=")
            for row in found["rows"]]


def solved_checks(found):
    memory, seconds = found["memory"], found["seconds_16x64"]
    out = []
    for share, row in memory.items():
        gap = {"median": row["mean_gap"], "min": 0, "max": row["worst_gap"], "n": found["pipelines"]}
        out.append(judged(f"{share} x the memory of 1f1b: mean gap to the bound", gap, found["wanted_gap"], "<="))
        longer = {key: row["longer"] for key in ("median", "min", "max")} | {"n": row["with_named"]}
        out.append(judged(f"{share} x the memory of 1f1b: longer than the best named schedule", longer, 0, "<="))
    return out + [judged("16 stages, 64 micro-batches", seconds, found["wanted_s"], "<=", "s")]


def hosts_checks(found):
    ratios = [row["ratio"] for row in found["rounds"]]
    return [check(f"measured / simulated step, {found['rate']}", ratios, found["wanted"][1], "<=")]


def peer_ucx_checks(found):
    out = [judged(f"{int(size) >> 10} KiB, ours / ucx_perftest", row.get("ratio"), found["wanted_ratio"], ">=")
           for size, row in found["bandwidth"].items()]
    tile = found["to_computing_us"]
    return out + [judged("1 MiB to a rank that computes in tiles of 1 ms", tile, tile["wanted"], "<=", "us")]


def collectives_checks(found):
    out = []
    for size, row in found.items():
        kib = int(size) >> 10
        what = f"all-reduce of two ranks, {kib} KiB, ours"
        out.append(judged(f"{what} / Open MPI", row.get("ratio"), row["wanted"], "<="))
        if row.get("gloo_ratio"):
            out.append(judged(f"{what} / gloo", row["gloo_ratio"], None, "<="))
    return out


def checkpoint_checks(found):
    out = []
    for key, what in (("step_ratio", "step while one is written / step"),
                      ("rate_ratio", "written and verified / dd with fsync")):
        sense, wanted = found[key]["wanted"].split()
        out.append(judged(what, {**found[key], "n": found["checkpoints"]}, float(wanted), sense))
    return out


def start_checks(found):
    return [judged(f"{name}: to the first instruction", row, found["wanted"], "<=", "s") for name, row in found.items()
            if name.endswith(" ranks")]


# name: (what, seconds a round on two idle cores of a current server, rounds of its own, how it is made)
ROWS = {
    "gpt2-256": ("GPT-2 124M, full step, B=4 T=256", 480, False, lambda a: gpt2(a, 256, 1.2, 4.5, True)),
    "gpt2-64": ("GPT-2 124M, full step, B=4 T=64", 240, False, lambda a: gpt2(a, 64, 1.25, 4.0, False)),
    "nano": ("nano, batch 12, context 64", 80, False,
             lambda a: small("nano", "kind: gpt, preset: nano, context: 64", 12, 64, 60, 1.6)),
    "six": ("6 layers of 384 channels, batch 12, context 256", 120, False,
            lambda a: small("six", SIX, 12, 256, forms.STEPS, 1.2)),
    "pipeline": ("GPT-2 124M, T=128, two ranks of one thread, 8 micro-batches of 1, 1f1b-early", 600, False, pipeline),
    "replicas": ("GPT-2 124M, T=128, batch 8, two replicas of one thread", 360, False, replicas),
    "products": ("matrix products of GPT-2 124M, B=4 T=256", 100, False, products),
    "bert": ("BERT-base, masked language model, full step, B=8 T=128", 360, False, bert),
    "llama": ("TinyLlama's shape with 4 layers, full step, B=2 T=512", 700, False, llama),
    "resnet20": ("ResNet-20 on 32x32 images, full step, batch 128", 200, False,
                 lambda a: resnet("resnet20", "kind: resnet, preset: resnet20", "cifar10", 128)),
    "resnet50": ("ResNet-50 on 224x224 images, full step, batch 16", 700, False,
                 lambda a: resnet("resnet50", "kind: resnet, preset: resnet50, image: 224, vocabulary: 1000", "custom", 16)),
    "timed": ("executor on the timed device over ucx, 32 micro-batches", 5, True, of_script("timed", timed_checks)),
    "schedules": ("every schedule on the timed device over ucx, stages of 5 ms", 80, True, of_script("schedules", schedules_checks)),
    "solved": ("schedules solved for 200 random pipelines", 10, True, of_script("solved", solved_checks)),
    "hosts": ("two hosts, namespaces with a slow link (root)", 10, True, of_script("hosts", hosts_checks)),
    "p2p": ("point to point over ucx", 12, True, of_script("peer_ucx", peer_ucx_checks)),
    "collectives": ("all-reduce of two ranks over ucx", 25, True, of_script("collectives", collectives_checks)),
    "checkpoint": ("checkpoint of GPT-2 124M in the background", 30, True, of_script("checkpoint", checkpoint_checks)),
    "start": ("start of 4 local ranks to the first instruction, nano", 2, True, of_script("start", start_checks)),
}
