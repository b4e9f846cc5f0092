#!/usr/bin/env python3
"""Everything that is to be known of a GPU, in one go: one run on a machine with a GPU answers all questions.

    bench/cuda.py [--only PART ...] [--presets NAME ...] [--steps N] [--rounds N] [--sanitize] [--out FILE] [--dry]

    tests      the tests that need a GPU; with --sanitize again below compute-sanitizer's memcheck and racecheck
    kernels    penstock bench kernels: rate and share of the peak of every operator of GPT-2 124M and XL; of products the
               algorithm that is taken beside the fastest of all that cuBLASLt proposes
    step       GPT-2 124M and XL, T=1024, bf16, micro-batches of 16, of XL also of 8 (where 16 do not fit): a full step
               beside one without CUDA graphs, and PyTorch's (SDPA, fused AdamW) in every form of forms.py once, then in
               the fastest with fp32 weights, in turn; as a share of the measured matrix rate (alone: penstock bench step);
               predicted beside measured peak bytes, and the GPU's memory in use, as its driver says, of both. Both have
               50,304 tokens, as is usual: rows of 50,257 numbers suit no tensor core
    predict    penstock profile, then the step that is predicted with it beside the measured one
    shared     two ranks that share the GPU, 1F1B, beside one rank with the same batch: their losses
    others     every operator and a step of ResNet-50 and of BERT
    llama      TinyLlama 1.1B (32 heads, of which each 8 share keys), T=2048, bf16, micro-batches of 4, beside the model of
               the package transformers (SDPA, fused AdamW), compiled, and as one CUDA graph
    sizes      steps of several models and contexts in bf16, beside the step that is predicted from the datasheet
    groups     TinyLlama 1.1B and Qwen 2.5 0.5B: a step with the heads that share keys in one graph, beside one with a graph
               for each member of a group, in turn
    links      two replicas that share the GPU: a step of GPT-2 124M with fp32 gradients, packed as int8, and delayed, and how
               far the losses of int8 are from fp32's; of a small GPT in fp32 the losses of each beside those on the CPU
    precisions the losses of one small GPT over 300 steps in every precision, and of its step the time
    optimizers a step of GPT-2 124M with every optimizer, and adapters, beside that with AdamW

--dry tries all parts on the CPU with a small model. Needs ./dev build, or a bundle (bench/bundle.sh) on machines that lack
what penstock needs, and PyTorch for its rows; a few minutes."""

import argparse
import concurrent.futures
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import contenders as c
import forms
import needs

BUILD = os.path.dirname(os.path.abspath(c.PENSTOCK))
VOCABULARY = 50304
# rounds: at most; XL takes long to begin. large: samples of a micro-batch whose operands no cache holds, for single operators
SIZES = {"gpt2": dict(layers=12, channels=768, micro=16, batch=32, rounds=5, large=64),
         "gpt2-xl": dict(layers=48, channels=1600, micro=16, batch=16, rounds=1, large=32, smaller=8),
         "nano": dict(layers=4, channels=128, micro=2, batch=4, rounds=5, large=2)}


def flops(preset, context, vocabulary=VOCABULARY):
    """Of a step's products and attention, for one token: forward, and twice as much backward."""
    layers, channels = SIZES[preset]["layers"], SIZES[preset]["channels"]
    return 3 * (2 * (12 * layers * channels ** 2 + vocabulary * channels) + 2 * layers * context * channels)


def model(args, preset):
    return f"kind: gpt, preset: {preset}" + ("" if args.dry else f", vocabulary: {VOCABULARY}")


def run_file(args, preset, folder, steps, large=False, micro=None, described=None):
    size = {**SIZES[preset], **(dict.fromkeys(("micro", "batch"), SIZES[preset]["large"]) if large else {}),
            **({"micro": micro} if micro else {})}
    path = os.path.join(folder, "run.yaml")
    shutil.copytree(os.path.join(c.HERE, "..", "src"), os.path.join(folder, "text"))
    with open(path, "w", encoding="ascii") as f:
        f.write(c.RUN.format(model=described or model(args, preset), kind="text", data=os.path.join(folder, "text"), steps=steps,
                             batch=size["batch"], micro=size["micro"]))
    return path


def keys_of(args):
    return ["parallel.device=" + ("cpu" if args.dry else "cuda"), "parallel.products=measured", "train.precision=" + ("fp32" if args.dry else "bf16")]


def train(args, preset, steps, *keys, described=None):
    """The lines of a run's steps, those of the warm-up first. It is killed when it has made them: the checkpoint at the end of a model
    of 1.5 billion parameters takes longer than all steps."""
    wanted, lines = steps + args.warmup, []
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "errors"), "w+", errors="replace") as errors:
        path = run_file(args, preset, folder, wanted + 1000, described=described)
        command = [c.PENSTOCK, "train", path, "--runs", folder, "--quiet", *keys_of(args), *keys]
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                                 start_new_session=True)
        end = time.monotonic() + args.limit
        try:
            while len(lines) < wanted:
                ended = child.poll() is not None or time.monotonic() > end
                metrics = os.path.join(folder, "run", "metrics.jsonl")
                if os.path.exists(metrics):
                    with open(metrics, encoding="ascii") as f:
                        lines = [json.loads(line) for line in f if line.endswith("\n") and '"event"' not in line]
                if ended and len(lines) < wanted:
                    errors.seek(0)
                    raise c.Failed(f"{' '.join(command)}: {len(lines)} of {wanted} steps: {errors.read()[-800:].strip()}")
                time.sleep(0.2)
            errors.seek(0)
            say_warnings(args, preset, c.warnings_of(errors))
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    return lines[:wanted]


def median(args, lines):
    return statistics.median(line["step_ms"] for line in lines[args.warmup:])


FOUND = {}  # by part and row; written as it grows, for a run may be cut short


def say(args, part, name, row):
    FOUND.setdefault(part, {})[name] = row
    text = json.dumps(row)
    print(f"{name}: {text if part != 'kernels' else text[:200]}", flush=True)
    if args.out:
        with open(args.out, "w", encoding="ascii") as f:
            json.dump(FOUND, f, indent=1)


def say_warnings(args, name, heard):
    """Such as of kernels that are slower than could be."""
    known = FOUND.get("warnings", {}).get(name, [])
    fresh = [line for line in dict.fromkeys(heard) if line not in known]
    if fresh:
        say(args, "warnings", name, known + fresh)


def output_of(args, name, words):
    heard = []
    out, _ = c.output_of([c.PENSTOCK, *words], heard)
    say_warnings(args, name, heard)
    return out


def presets(args):
    return ["nano"] if args.dry else args.presets


def gpu_tests():
    """name: program, of those that need a GPU: in a bundle (bench/bundle.sh) a folder of them, else as ctest knows them."""
    folder = os.path.join(BUILD, "gpu-tests")
    if os.path.isdir(folder):
        return {name: os.path.join(folder, name) for name in sorted(os.listdir(folder))}
    found = subprocess.run(["ctest", "--test-dir", BUILD, "-N", "-V", "-L", "gpu"], capture_output=True, text=True, check=False)
    programs = [line.split("Test command:")[1].strip().strip('"') for line in found.stdout.splitlines() if "Test command:" in line]
    return {os.path.basename(program): program for program in programs}


def test(words):
    """`skipped` where there is no GPU (status 77)."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
        return {0: "passed", 77: "skipped"}.get(done.returncode) or done.stdout[-1500:] + done.stderr[-1500:]
    except (OSError, subprocess.SubprocessError) as wrong:
        return str(wrong)


def tests(args):
    """All at the same time: they mostly wait for the host."""
    tools = [[]] + [["compute-sanitizer", "--tool", tool, "--error-exitcode", "9"] for tool in ("memcheck", "racecheck")
                    if args.sanitize]
    words = {" ".join([*tool[:3], name]): [*tool, program] for name, program in gpu_tests().items() for tool in tools}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        rows = dict(zip(words, pool.map(test, words.values())))
    for name, said in rows.items():
        say(args, "tests", name, said)
    bad = [name for name, said in rows.items() if said != "passed" and not args.dry]
    if bad or not rows:
        raise c.Failed(f"not passed: {', '.join(bad) or 'there are none'}")


def kernels(args):
    rows = {}
    for preset in presets(args):
        with tempfile.TemporaryDirectory() as folder:
            words = ["bench", "kernels", "--run", run_file(args, preset, folder, 1, large=True), "--json"]
            words += [] if args.dry else ["--device", "cuda", "--precision", "bf16"]
            rows[preset] = json.loads(output_of(args, preset, words))["kernels"]
        for precision in rows[preset]["precisions"]:  # what a run takes, beside the fastest of all that cuBLASLt proposes
            for way in ("first", "measured"):
                shares = [row["best_s"] / row[way + "_s"] for row in precision["products"]]
                if shares:
                    precision[f"least {way} / best"] = min(shares)
                    say(args, "products", f"{preset} {precision['precision']} {way}", min(shares))
        say(args, "kernels", preset, rows[preset])
    for precision in () if args.dry else ("tf32", "fp8"):
        with tempfile.TemporaryDirectory() as folder:
            words = ["bench", "kernels", "--run", run_file(args, "gpt2", folder, 1), "--op", "linear", "--json", "--device", "cuda",
                     "--precision", precision]
            try:
                say(args, "kernels", precision, json.loads(output_of(args, precision, words))["kernels"])
            except c.Failed as wrong:  # fp8 needs sm_89
                say(args, "kernels", precision, str(wrong))


def micros(preset):
    """Samples of a micro-batch that are tried, the preferred one first."""
    size = SIZES[preset]
    return [size["micro"]] + ([size["smaller"]] if "smaller" in size else [])


class Used:
    """The most that a GPU has in use while this lasts, in MiB, as its driver says: the same measure for all contenders."""

    def __init__(self):
        self.most, self.ended = 0, threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def watch(self):
        words = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
        while not self.ended.wait(0.5):
            try:
                out = subprocess.run(words, capture_output=True, text=True, check=True, timeout=10).stdout
                self.most = max(self.most, int(out.split()[0]))
            except (OSError, ValueError, IndexError, subprocess.SubprocessError):
                return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def peer(args, preset, context, form, micro):
    """A run of PyTorch in that form of forms.GPU_FORMS."""
    mode, graph, weights = ("eager", False, "fp32") if args.dry else forms.GPU_FORMS[form]
    words = ["--preset", preset, "-B", str(SIZES[preset]["batch"]), "--micro", str(micro), "-T", str(context), "--steps",
             str(args.steps), "--warmup", str(args.warmup + 3), "--json", "--mode", mode, "--weights", weights]
    words += ["--graph"] if graph else []
    words += [] if args.dry else ["--device", "cuda", "--precision", "bf16", "--vocabulary", str(VOCABULARY)]
    with Used() as used:
        out, _ = c.output_of([sys.executable, os.path.join(c.HERE, "peer_torch.py"), *words])
    return {**json.loads(out.splitlines()[-1]), "used_mib": used.most}


def peers(args, preset, context):
    """{form and micro-batch: its run, or why there is none} of all forms."""
    found = {}
    for form in ["eager"] if args.dry else forms.GPU_FORMS:
        for micro in micros(preset):
            try:
                found[f"{form}, micro-batches of {micro}"] = {**peer(args, preset, context, form, micro), "form": form,
                                                              "micro": micro}
            except (c.Failed, subprocess.SubprocessError) as wrong:
                found[f"{form}, micro-batches of {micro}"] = {"failed": str(wrong)[-300:]}
            say(args, "peers", preset, found)
    return found


def best(found):
    """Of the forms whose weights have 32 bits, as ours."""
    runs = [run for run in found.values() if "failed" not in run and run["weights"] == "fp32"]
    return min(runs, key=lambda run: run["step_ms"]) if runs else None


def fitting(args, preset):
    """A run of ours with the largest micro-batch that fits: its lines, micro-batch, and the memory in use."""
    for micro in micros(preset):
        try:
            with Used() as used:
                return train(args, preset, args.steps, f"train.micro_batch={micro}"), micro, used
        except c.Failed:
            if micro == micros(preset)[-1]:
                raise
    raise c.Failed("no micro-batch")


def step(args):
    for preset in presets(args):
        context, ours, plain, theirs = 64 if args.dry else 1024, [], [], []
        fastest = best(peers(args, preset, context)) if c.have_torch() else None
        for _ in range(min(args.rounds, SIZES[preset]["rounds"])):
            lines, micro, used = fitting(args, preset)
            ours.append(median(args, lines))
            plain.append(median(args, train(args, preset, args.steps, "parallel.graphs=false", f"train.micro_batch={micro}")))
            if fastest:
                theirs.append(peer(args, preset, context, fastest["form"], fastest["micro"]))
        took = statistics.median(ours)
        rate = SIZES[preset]["batch"] * context / took * 1e3
        row = {"step_ms": took, "rounds_ms": ours, "without_graphs_ms": statistics.median(plain), "micro": micro,
               "tokens_per_s": rate, "tflops": flops(preset, context) * rate / 1e12, "used_mib": used.most,
               "predicted_peak": lines[-1]["predicted_peak_bytes"], "peak": lines[-1]["peak_bytes"]}
        if fastest:
            row.update({"torch": fastest["version"], "torch_ms": statistics.median(p["step_ms"] for p in theirs),
                        "torch_form": fastest["form"], "torch_micro": fastest["micro"], "torch_mib": fastest["peak_mib"],
                        "torch_used_mib": fastest["used_mib"], "torch_device_mib": fastest["device_mib"]})
            row["torch / ours"] = row["torch_ms"] / took
        with tempfile.TemporaryDirectory() as folder:  # by the program's own reckoning, beside datasheet and a large product
            words = ["bench", "step", "--run", run_file(args, preset, folder, 1, micro=micro), "--json"]
            words += ["--precision", "fp32"] if args.dry else ["--device", "cuda", "--precision", "bf16"]
            row["alone"] = json.loads(output_of(args, preset, words))["step"]["precisions"][0]
        say(args, "step", preset, row)


def predict(args):
    for preset in presets(args):
        with tempfile.TemporaryDirectory() as folder:
            micro = micros(preset)[-1]  # which fits in any case
            path, profile = run_file(args, preset, folder, 1, micro=micro), os.path.join(folder, "profile.yaml")
            output_of(args, preset, ["profile", path, "-n", "1", "-o", profile, *keys_of(args)])
            lines = train(args, preset, args.steps, "parallel.profile=" + profile, f"train.micro_batch={micro}")
        predicted, measured = lines[0]["predicted_step_ms"], median(args, lines)
        say(args, "predict", preset, {"predicted_ms": predicted, "measured_ms": measured, "error": predicted / measured - 1})


def shared(args):
    preset = "nano" if args.dry else "gpt2"
    one = train(args, preset, args.steps, "parallel.pipeline=1")
    two = train(args, preset, args.steps, "parallel.pipeline=2", "parallel.schedule=1f1b", "parallel.transport=ucx")
    apart = max(abs(a["loss"] - b["loss"]) / a["loss"] for a, b in zip(one, two))
    row = {"one_ms": median(args, one), "two_ms": median(args, two), "losses_apart": apart, "first": [one[0]["loss"], two[0]["loss"]],
           "last": [one[-1]["loss"], two[-1]["loss"]]}
    say(args, "shared", preset, row)


# Other models than GPT, for their operators: convolution and batch norm, masked attention.
OTHERS = {"resnet50": ("{kind: resnet, preset: resnet50, image: 224, vocabulary: 1000}", "custom", 128, 64),
          "bert-base": ("{kind: bert, preset: base, vocabulary: 30528}", "lines", 32, 16),
          "resnet20": ("{kind: resnet, preset: resnet20}", "cifar10", 8, 4)}


def others(args):
    for name in ["resnet20"] if args.dry else ["resnet50", "bert-base"]:
        described, data, batch, micro = OTHERS[name]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.yaml")
            with open(path, "w", encoding="ascii") as f:
                f.write(f"model: {described}\ndata: {{kind: {data}, paths: [none]}}\n"
                        f"train: {{batch: {batch}, micro_batch: {micro}}}\n")
            for suite in "kernels", "step":
                words = ["bench", suite, "--run", path, "--json"]
                words += ["--precision", "fp32"] if args.dry else ["--device", "cuda", "--precision", "bf16"]
                say(args, "others", f"{name}, {suite}", json.loads(output_of(args, name, words))[suite]["precisions"][0])


def llama(args):
    described = "kind: llama, preset: llama-tiny" if args.dry else "kind: llama, preset: tinyllama-1.1b"
    context, batch, micro = (64, 4, 2) if args.dry else (2048, 8, 4)
    words = f"train.batch={batch}", f"train.micro_batch={micro}", f"model.context={context}"
    rows = {}
    with Used() as used:
        lines = train(args, "nano", args.steps, *words, described=described)
    rows["ours"] = {"step_ms": median(args, lines), "predicted_ms": lines[0]["predicted_step_ms"], "used_mib": used.most,
                    "predicted_peak": lines[-1]["predicted_peak_bytes"], "peak": lines[-1]["peak_bytes"]}
    say(args, "llama", "rows", rows)
    for mode, graph in (("compile", True), ("compile", False)) if c.have_torch() and not args.dry else ():
        peer_words = ["--model", "llama", "--layers", "22", "-B", str(batch), "-T", str(context), "--micro", str(micro),
                      "--device", "cuda", "--precision", "bf16", "--mode", mode, "--steps", str(args.steps), "--warmup", "6",
                      "--json", *(["--graph"] if graph else [])]
        try:
            out, _ = c.output_of([sys.executable, os.path.join(c.HERE, "peer_transformers.py"), *peer_words])
            rows[mode + " graph" * graph] = json.loads(out.splitlines()[-1])
        except (c.Failed, subprocess.SubprocessError) as wrong:
            rows[mode + " graph" * graph] = {"failed": str(wrong)[-300:]}
        say(args, "llama", "rows", rows)


# Models whose steps are compared with predictions from the datasheet: what describes them, context, batch, micro-batch.
MEASURED = {"gpt2 T=1024": ("kind: gpt, preset: gpt2", 1024, 32, 16), "gpt2 T=4096": ("kind: gpt, preset: gpt2", 4096, 8, 4),
            "gpt2-medium T=1024": ("kind: gpt, preset: gpt2-medium", 1024, 32, 16),
            "gpt2-large T=1024": ("kind: gpt, preset: gpt2-large", 1024, 16, 8),
            "gpt2-xl T=1024": ("kind: gpt, preset: gpt2-xl", 1024, 16, 8),
            "tinyllama T=2048": ("kind: llama, preset: tinyllama-1.1b", 2048, 8, 4),
            "qwen-2.5-0.5b T=4096": ("kind: llama, preset: qwen-2.5-0.5b", 4096, 4, 2)}


def sizes(args):
    for name, (described, context, batch, micro) in MEASURED.items():
        if args.dry:
            described, context, batch, micro = "kind: gpt, preset: nano", 64, 4, 2
        if "gpt," in described and not args.dry:
            described += f", vocabulary: {VOCABULARY}"
        words = f"train.batch={batch}", f"train.micro_batch={micro}", f"model.context={context}"
        try:
            lines = train(args, "nano", min(args.steps, 8), *words, described=described)
        except c.Failed as wrong:
            say(args, "sizes", name, str(wrong)[-300:])
            continue
        predicted, measured = lines[0]["predicted_step_ms"], median(args, lines)
        say(args, "sizes", name, {"batch": batch, "micro": micro, "context": context, "predicted_ms": predicted,
                                  "measured_ms": measured, "error": predicted / measured - 1})


GROUPED = {name: MEASURED[name] for name in ("tinyllama T=2048", "qwen-2.5-0.5b T=4096")}


def groups(args):
    for name, (described, context, batch, micro) in GROUPED.items():
        if args.dry:
            described, context, batch, micro = "kind: llama, preset: llama-tiny", 64, 4, 2
        words = f"train.batch={batch}", f"train.micro_batch={micro}", f"model.context={context}"
        took, losses = {"together": [], "members": []}, {}
        for way in list(took) * min(args.rounds, 2):
            os.environ["PENSTOCK_ATTENTION"] = way
            lines = train(args, "nano", min(args.steps, 8), *words, described=described)
            took[way].append(median(args, lines))
            losses[way] = [line["loss"] for line in lines]
        del os.environ["PENSTOCK_ATTENTION"]
        apart = max(abs(a - b) / a for a, b in zip(losses["together"], losses["members"]))
        say(args, "groups", name, {"batch": batch, "micro": micro, "rounds_ms": took, "losses_apart": apart,
                                   "members / together": statistics.median(took["members"]) / statistics.median(took["together"])})


PACKED = "parallel.compress.links=all", "parallel.compress.min_bytes=0"
LINKS = {"fp32": (), "int8": ("parallel.compress.up=int8", *PACKED), "int4": ("parallel.compress.up=int4", *PACKED),
         "2bit": ("parallel.compress.up=2bit", *PACKED), "delayed": ("parallel.update=delayed",)}
SMALL = "kind: gpt, layers: 4, heads: 4, channels: 128, context: 64, vocabulary: 256"


def links(args):
    preset, replicas = "nano" if args.dry else "gpt2", ("parallel.data=2", "parallel.transport=ucx")
    rows = {}
    for way in "fp32", "int8", "delayed":
        lines = train(args, preset, min(args.steps, 8), *replicas, *LINKS[way])
        rows[way] = {"step_ms": median(args, lines), "losses": [lines[0]["loss"], lines[-1]["loss"]],
                     "compression": lines[-1].get("compression"), "peak": lines[-1]["peak_bytes"],
                     "predicted_peak": lines[-1]["predicted_peak_bytes"]}
        say(args, "links", preset, rows)
    for way, words in LINKS.items():
        of = {}
        for device in ("cpu", "cpu" if args.dry else "cuda"):
            lines = train(args, "nano", 30, *replicas, "train.precision=fp32", f"parallel.device={device}", "train.lr=1.0e-3",
                          "train.micro_batch=2", "train.batch=8", *words, described=SMALL)
            of[device] = [line["loss"] for line in lines]
        apart = max(abs(a - b) / a for a, b in zip(of["cpu"], of["cpu" if args.dry else "cuda"]))
        say(args, "links", f"small, {way}", {"losses_apart": apart, "first": of["cpu"][0], "last": of["cpu"][-1]})


def precisions(args):
    described = "kind: gpt, layers: 6, heads: 6, channels: 384, context: 256, vocabulary: 256"
    steps, batch = (6, 4) if args.dry else (300, 32)
    for precision in ("fp32", "bf16") if args.dry else ("fp32", "tf32", "bf16", "fp16", "fp8"):
        words = f"train.batch={batch}", "train.micro_batch=0", "train.lr=1.0e-3", "train.warmup=30", f"train.precision={precision}"
        try:
            lines = train(args, "nano", steps, *words, described=described)
        except c.Failed as wrong:
            say(args, "precisions", precision, str(wrong)[-300:])
            continue
        losses = [line["loss"] for line in lines]
        say(args, "precisions", precision, {"step_ms": median(args, lines), "first": losses[0], "at_20": losses[min(20, steps)],
                                            "last_20": statistics.mean(losses[-20:])})


def optimizers(args):
    preset, steps = "nano" if args.dry else "gpt2", min(args.steps, 8)
    ways = {"adamw": (), "adamw, state in bf16": ("train.optimizer_state=bf16",), "lamb": ("train.optimizer=lamb",),
            "muon": ("train.optimizer=muon",), "sgd": ("train.optimizer=sgd",), "adapters": ("adapt.on=attention", "adapt.rank=8")}
    for name, words in ways.items():
        try:
            lines = train(args, preset, steps, *words)
        except c.Failed as wrong:
            say(args, "optimizers", name, str(wrong)[-300:])
            continue
        say(args, "optimizers", name, {"step_ms": median(args, lines), "losses": [lines[0]["loss"], lines[-1]["loss"]]})


PARTS = {"tests": tests, "kernels": kernels, "step": step, "predict": predict, "shared": shared, "others": others,
         "llama": llama, "sizes": sizes, "groups": groups, "links": links, "precisions": precisions,
         "optimizers": optimizers}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--presets", nargs="*", choices=["gpt2", "gpt2-xl"], default=["gpt2", "gpt2-xl"])
    parser.add_argument("--limit", type=float, default=300, help="seconds that a run may take")
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--out", help="all findings as JSON")
    args = parser.parse_args()
    needs.check()
    c.LIMIT = args.limit
    failed = 0
    for name in args.only:
        print(f"== {name}", flush=True)
        try:
            PARTS[name](args)
        except (c.Failed, KeyError, ValueError, OSError, subprocess.SubprocessError) as wrong:  # the others may tell something
            say(args, name, "failed", str(wrong))
            failed = 1
    sys.exit(failed)


if __name__ == "__main__":
    main()
