"""What bench/table.py lets run against each other: each function runs one program once and gives a dict with
`tokens_per_s`, `step_ms` and, of one process, `peak_mib` (highest resident memory, libraries included). Absent is raised
where the peer is not here."""

import importlib.metadata
import importlib.util
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading

import forms
import needs
from needs import PENSTOCK

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 900  # seconds that a program may take
RUN = """name: run
model: {{{model}}}
data: {{kind: {kind}, paths: ["{data}/**"], validation: 0}}
train: {{steps: {steps}, batch: {batch}, micro_batch: {micro}, lr: 1.0e-4, warmup: 1, clip: 1.0}}
checkpoint: {{every: 0}}
"""


class Failed(Exception):
    """A program that is here did not do its work; the text says which and how."""


class Absent(Exception):
    """A peer is not here; the text says what it needs."""


def warnings_of(errors, mark="warning: "):
    """The lines with that mark of a file of standard error, read from where it stands."""
    return [line.strip() for line in errors if mark in line]


def output_of(command, heard=None, mark="warning: ", **environment):
    """Standard output, and the peak resident memory of the process in MiB. heard: a list that receives the lines of
    standard error with that mark, by default what penstock has warned of."""
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                 env={**os.environ, **environment}, start_new_session=True)
        timer = threading.Timer(LIMIT, os.killpg, (child.pid, signal.SIGKILL))
        timer.start()
        try:
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        except KeyboardInterrupt:
            os.killpg(child.pid, signal.SIGKILL)
            raise
        finally:
            timer.cancel()
        out.seek(0), err.seek(0)
        if status:
            raise Failed(f"{' '.join(command)}: status {child.returncode}: {err.read()[-400:].strip()}")
        if heard is not None:
            heard += warnings_of(err, mark)
        return out.read(), usage.ru_maxrss / 1024


def folder_for_runs():
    """Memory where there is plenty: the final checkpoint is not what is measured here."""
    room = shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else 0
    return "/dev/shm" if room > 6 << 30 else None


def train(model, batch, micro, steps, *overrides, kind="text"):
    """A training run; overrides: key=value. Its steps as metrics.jsonl has them, but the first, in which memory is touched
    for the first time; the peak resident memory of the process (of the launcher, where there are several); the hash of the
    weights."""
    with tempfile.TemporaryDirectory(dir=folder_for_runs()) as folder:
        path = os.path.join(folder, "run.yaml")
        shutil.copytree(os.path.join(HERE, "..", "src"), os.path.join(folder, "text"))
        with open(path, "w", encoding="ascii") as f:
            f.write(RUN.format(model=model, kind=kind, data=os.path.join(folder, "text"), steps=steps + 1, batch=batch,
                               micro=micro))
        _, peak = output_of([PENSTOCK, "train", path, "--runs", folder, "--quiet", *overrides])
        with open(os.path.join(folder, "run", "metrics.jsonl"), encoding="ascii") as f:
            lines = [json.loads(line) for line in f]
    return [line for line in lines if "event" not in line][1:], peak, lines[-1]["weights_xxh64"]


def penstock(model, batch, micro, steps, ranks=1, threads=2, schedule="1f1b", replicas=1, kind="text"):
    """work: shares of the time by kind of work. predicted_bubble: simulated with the measured durations."""
    lines, peak, _ = train(model, batch, micro, steps, f"parallel.pipeline={ranks // replicas}", f"parallel.data={replicas}",
                           f"parallel.schedule={schedule}", f"parallel.threads={threads}", kind=kind)
    timed = [line for line in lines if "work_s" in line]
    wall = sum(line["step_ms"] for line in timed) * 1e-3 * ranks
    kinds = {kind: sum(line["work_s"].get(kind, 0) for line in timed) / wall for line in timed for kind in line["work_s"]}
    result = {"tokens_per_s": statistics.median(line["tokens_per_s"] for line in lines),
              "step_ms": statistics.median(line["step_ms"] for line in lines), "work": kinds,
              "bubble": lines[-1]["bubble"], "predicted_bubble": lines[-1]["predicted_bubble"]}
    return {**result, "peak_mib": peak} if ranks == 1 else result


def doctor():
    try:
        return json.loads(output_of([PENSTOCK, "doctor", "--json"])[0])
    except (json.JSONDecodeError, OSError, Failed):
        raise SystemExit(f"{PENSTOCK} does not run: ./dev build first") from None


def have_torch():
    return importlib.util.find_spec("torch") is not None


def torch_version():
    return importlib.metadata.version("torch") if have_torch() else None


def torch_peer(program, form, *words):
    """A PyTorch program of bench/ in one of its forms (forms.py)."""
    if not have_torch():
        raise Absent(forms.MISSING)
    mode, tuned = forms.FORMS[form]
    command = [sys.executable, os.path.join(HERE, program + ".py"), "--mode", mode, "--tuned" if tuned else "--plain",
               "--json", *(str(word) for word in words)]
    return json.loads(output_of(command)[0].splitlines()[-1])


def torch(form, preset, batch, context, steps=forms.STEPS):
    return torch_peer("peer_torch", form, "--preset", preset, "-B", batch, "-T", context, "--steps", steps)


def torch_pipeline(form, schedule, context, micro_batches):
    return torch_peer("peer_pipeline", form, "--schedule", schedule, "-T", context, "--micro-batches", micro_batches)


def torch_replicas(form, context, batch, micro):
    return torch_peer("peer_ddp", form, "-T", context, "-B", batch, "--micro", micro)


def llmc(folder, work, batch, context, steps):
    if not folder:
        raise Absent("needs a checkout of github.com/karpathy/llm.c: --llmc FOLDER")
    command = [sys.executable, os.path.join(HERE, "peer_llmc.py"), "--llmc", folder, "--work", work, "-B", str(batch), "-T",
               str(context), "--steps", str(steps), "--json"]
    return json.loads(output_of(command)[0].splitlines()[-1])


def transformers(form, model, batch, context, layers):
    if not importlib.util.find_spec("transformers"):
        raise Absent("needs the package transformers: pip install transformers")
    return torch_peer("peer_transformers", form, "--model", model, "-B", batch, "-T", context, "--layers", layers)


def bert(form, batch, context):
    return transformers(form, "bert", batch, context, 12)


def llama(form, batch, context, layers):
    return transformers(form, "llama", batch, context, layers)


def resnet(form, net, *layout):
    """layout: "--channels-last" or nothing."""
    return torch_peer("peer_resnet", form, "--net", net, *layout)


def step(model, kind, batch):
    """Whole steps on made-up samples. tokens_per_s: of images, images/s."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.yaml")
        with open(path, "w", encoding="ascii") as f:
            f.write(f"model: {{{model}}}\ndata: {{kind: {kind}, paths: [none]}}\n"
                    f"train: {{batch: {batch}, micro_batch: {batch}, clip: 1.0}}\n")
        out, peak = output_of([PENSTOCK, "bench", "step", "--run", path, "--precision", "fp32", "--threads", "2", "--json"])
    found = json.loads(out)["step"]["precisions"][0]
    return {"tokens_per_s": found["tokens_per_s"], "step_ms": found["step_s"] * 1e3, "peak_mib": peak}


def product_seconds(found):
    """Of one step: {precision: {"seconds": {MxKxN pass: of one}, "of_peak": share of the FMA peak}}; `found`: one of bench
    kernels' precisions."""
    seconds = {}
    for row in found["rows"]:
        m, (n, k) = row["shape"].split(" w ")[0].split("x"), row["shape"].split(" w ")[1].split()[0].split("x")
        seconds[f"{int(m[0]) * int(m[1])}x{k}x{n} {row['pass']}"] = row["seconds"]
    return {"seconds": seconds, "of_peak": found["products_of_peak"]}


def products(threads):
    """Ours, with bias and activation, which the peer leaves out; the peak is measured in the same run."""
    command = [PENSTOCK, "bench", "kernels", "--op", "linear", "--precision", "both", "--threads", str(threads), "--json"]
    found = json.loads(output_of(command)[0])["kernels"]["precisions"]
    return {one["precision"]: product_seconds(one) for one in found}


def torch_products(threads, precision):
    if not have_torch():
        raise Absent(forms.MISSING)
    if precision == "bf16" and doctor()["cpu"]["bf16"].startswith("no"):
        raise Absent("bf16 without its instructions takes minutes")
    command = [sys.executable, os.path.join(HERE, "peer_products.py"), "--threads", str(threads), "--precision", precision,
               "--json"]
    found = json.loads(output_of(command)[0].splitlines()[-1])["shapes"]
    return {"seconds": {f"{shape} {name}": s for shape, passes in found.items() for name, s in passes.items()}}


def script(name, rounds):
    """A measuring program of bench/: what it prints with --json, and the peers that it left out, with the reason."""
    path = os.path.join(HERE, name + ".py")
    said = []
    out, _ = output_of([sys.executable, path, "--rounds", str(rounds), "--json"], said, needs.LEFT_OUT)
    return {"found": json.loads(out[out.index("{"):]), "left_out": dict(line.split(needs.LEFT_OUT, 1) for line in said)}
