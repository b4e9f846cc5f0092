#!/usr/bin/env python3
"""Whether two builds of the program compute the same. Each makes the same short training runs and
predictions; everything that does not depend on the clock has to be equal, to the last bit: losses,
norms of gradients, hashes of weights and of every tensor in the checkpoint, run.yaml and plan.yaml,
instructions and memory of every rank, predicted steps, chosen layouts. Plans, profiles and
checkpoints that OLD has written are read by NEW.

    bench/same_bits.py OLD/penstock NEW/penstock [--only NAME,...] [--jobs N]
    bench/same_bits.py OLD/penstock --save FILE        # of OLD alone, to be compared later
    bench/same_bits.py NEW/penstock --old-saved FILE   # with what was saved

NEW is build/release/penstock where it is left out. Each difference is a line: run, what, old value
-> new value. Status 1 when something differs or does not run."""

import argparse
import contextlib
import difflib
import fnmatch
import functools
import hashlib
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import needs
from needs import PENSTOCK

SCHEDULES = ("gpipe", "1f1b", "1f1b-early", "interleaved", "zb-h1", "zb-h2", "zb-v", "v-half",
             "v-min", "dualpipev", "solved")
LOOKS = ("graph", "tape", "plan", "schedule", "instructions", "memory")
LIMIT_S = 120  # of one command
SHOWN = 3  # lines of a text that differs
MARK = "made_by_same_bits"  # a folder with this file may be removed
NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
# durations and shares in a text are predictions
GUESS = re.compile(rf"~?{NUMBER}(?:%| (?:ns|us|ms|s)\b)")
GUESSED_KEY = re.compile(rf"^ +(step_ns|flush_ns|bound_ns|bubble): ({NUMBER})")
GUESSED_JSON = re.compile(r"_ns$|_s$|makespan|lower_bound|gap$|bubble|mfu$|exposed")

# --- how a program is run ---------------------------------------------------------------------


class Failed(Exception):
    """A command that did not do what it should."""


class Skipped(Exception):
    """What cannot be run on this machine."""


def processes_below(pid):
    """A process and those that it or its session started, as far as they still are there."""
    parents, sessions = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="latin-1") as file:
            fields = file.read().rpartition(")")[2].split()
            parents[int(name)], sessions[int(name)] = int(fields[1]), int(fields[3])
    found = {pid} | {x for x, session in sessions.items() if session == pid}
    more = True
    while more:
        more = {x for x, parent in parents.items() if parent in found} - found
        found |= more
    return found


def end(child):
    """Ends a command and its ranks, each by its number."""
    for pid in processes_below(child.pid):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


class Place:
    """One program and the folder in which it makes one run or prediction."""

    def __init__(self, program, folder, old_folder):
        self.program, self.folder, self.old_folder = program, folder, old_folder
        self.is_old = folder == old_folder
        os.makedirs(folder, exist_ok=True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def plain(self, text):
        """A text without the names of folders."""
        for folder in sorted({self.folder, self.old_folder}, key=len, reverse=True):
            text = text.replace(folder, ".")
        return text

    def call(self, *words, env=None, status=0):
        """Standard output and error of one command, which has to end with this status."""
        around = {k: v for k, v in os.environ.items() if not k.startswith(("PENSTOCK", "PST_"))}
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = subprocess.Popen([self.program, *map(str, words)], cwd=self.folder, stdout=out,
                                     stderr=err, stdin=subprocess.DEVNULL,
                                     env={**around, **(env or {})}, start_new_session=True)
            try:
                child.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                raise Failed(f"{words[0]}: not done after {LIMIT_S} s") from None
            finally:
                if child.poll() is None:
                    end(child)
                    child.wait()
            texts = []
            for file in out, err:
                file.seek(0)
                texts.append(self.plain(file.read().decode("utf-8", "replace")))
        if child.returncode != status:
            said = ([""] + texts[1].strip().splitlines())[-1]
            command = " ".join(map(str, words))
            raise Failed(f"{command[:100]}: status {child.returncode}: {said or 'nothing said'}")
        return texts

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return name

    def read(self, *parts):
        with open(self.path(*parts), encoding="utf-8") as file:
            return self.plain(file.read())

    def of_old(self, name, make):
        """A file or folder that OLD has made by make(); a copy of it, by its name in this place."""
        kept = os.path.join(self.old_folder, "kept", name)
        if self.is_old:
            made = self.path(make())
            os.makedirs(os.path.dirname(kept), exist_ok=True)
            (shutil.copytree if os.path.isdir(made) else shutil.copy)(made, kept)
        here = os.path.join("old", name)
        os.makedirs(self.path("old"), exist_ok=True)
        if os.path.isdir(kept):
            shutil.copytree(kept, self.path(here), symlinks=True)
        else:
            shutil.copy(kept, self.path(here))
        return here


class Found:
    """What one run or prediction has come to: values that have to be the same, and predictions."""

    def __init__(self):
        self.same, self.predicted = {}, {}

    def put(self, what, value):
        self.same[what] = value

    def guess(self, what, value):
        self.predicted[what] = value

    def text(self, what, text):
        """A text; predictions in it apart."""
        kept, numbers = [], []
        for line in text.splitlines():
            key = GUESSED_KEY.match(line)
            if key:
                self.guess(f"{what}: {key[1]}", float(key[2]))
                continue
            numbers += GUESS.findall(line)
            kept.append(" ".join(GUESS.sub("~", line).split()))
        self.put(what, kept)
        if numbers:
            self.guess(f"{what}: durations and shares", numbers)

    def tree(self, what, value, guessed=GUESSED_JSON, path=""):
        """JSON, a value for each of its leaves."""
        if isinstance(value, dict):
            for key, inner in value.items():
                self.tree(what, inner, guessed, f"{path}.{key}" if path else key)
        elif isinstance(value, list) and any(isinstance(x, dict) for x in value):
            for i, inner in enumerate(value):
                self.tree(what, inner, guessed, f"{path}[{i}]")
        else:
            (self.guess if guessed.search(path) else self.put)(f"{what}: {path}", value)


# --- run files ----------------------------------------------------------------------------------

GPT = {"model": {"kind": "gpt", "layers": 4, "heads": 2, "channels": 32, "context": 16},
       "data": {"kind": "text", "paths": ["../data/text.txt"]},
       "train": {"steps": 3, "batch": 8, "micro_batch": 1, "warmup": 1, "lr": 0.001,
                 "hang_slack": 60},
       "parallel": {"transport": "self", "threads": 1}, "checkpoint": {"every": 0}}
MLP = {**GPT, "model": {"kind": "mlp", "layers": 6, "channels": 24, "context": 16}}
BERT = {**GPT, "model": {"kind": "bert", "layers": 3, "heads": 2, "channels": 32, "context": 24,
                         "dropout": 0.1}, "data": {"kind": "lines", "paths": ["../data/text.txt"]}}
CIFAR = {**GPT, "model": {"kind": "resnet", "layers": 8, "channels": 4},
         "data": {"kind": "cifar10", "paths": ["../data/cifar.bin"]},
         "train": {**GPT["train"], "micro_batch": 2}}
MNIST = {**CIFAR, "data": {"kind": "mnist", "paths": ["../data/images", "../data/labels"]}}


def changed(base, **keys):
    """A run file like another; keys are of parallel, or sections."""
    sections = {name: dict(section) for name, section in base.items()}
    for key, value in keys.items():
        if isinstance(value, dict):
            sections.setdefault(key, {}).update(value)
        else:
            sections["parallel"][key] = value
    return sections


def as_yaml(sections):
    def flow(value):
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k}: {flow(x)}" for k, x in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(flow, value)) + "]"
        plain = isinstance(value, str) and re.fullmatch(r"[\w.%/-]+", value)
        return value if plain else json.dumps(value)
    return "".join(f"{name}: {flow(section)}\n" for name, section in sections.items())


def write_data(folder):
    """The same data each time: words of made-up text, images without meaning."""
    os.makedirs(folder, exist_ok=True)
    numbers = random.Random(11)
    words = ["".join(numbers.choices("etaoinshrdlu", k=numbers.randint(2, 8))) for _ in range(200)]
    for name, count in ("text.txt", 400), ("other.txt", 60):
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            for _ in range(count):
                file.write(" ".join(numbers.choices(words, k=numbers.randint(4, 9))) + "\n")
    images = [bytes([numbers.randrange(10)]) + numbers.randbytes(3072) for _ in range(60)]
    labels = bytes(numbers.randrange(10) for _ in range(60))
    for name, content in (("cifar.bin", b"".join(images)),
                          ("images", struct.pack(">4I", 2051, 60, 28, 28)
                           + numbers.randbytes(60 * 784)),
                          ("labels", struct.pack(">2I", 2049, 60) + labels)):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)


# --- what a run leaves --------------------------------------------------------------------------


def read_metrics(place, found, folder, label="", since=0):
    """All of metrics.jsonl that no clock has measured; of steps behind `since` alone."""
    first = True
    for line in place.read(folder, "metrics.jsonl").splitlines():
        row = json.loads(line)
        event, step = row.get("event", "step"), row.get("step")
        if event == "start" and not since:
            for key in "model", "predicted_region_bytes":
                found.tree(f"{label}start", row.get(key), path=key)
        elif event == "step" and step > since:
            if first:  # the next ones are predicted from what was measured
                found.guess(f"{label}predicted step, ms", row.get("predicted_step_ms"))
                found.guess(f"{label}predicted bubble", row.get("predicted_bubble"))
                found.put(f"{label}predicted peak bytes", row.get("predicted_peak_bytes"))
                first = False
            for key in ("loss", "grad_norm", "lr", "tokens", "loss_scale", "skipped_steps"):
                if key in row:
                    found.put(f"{label}{key} of step {step}", row[key])
            if "rolled_back_ranks" not in row:  # which step was taken ahead is for the clock to say
                found.put(f"{label}written bytes of step {step}", row.get("peak_bytes"))
        elif event == "end":
            found.put(f"{label}weights at the end", row.get("weights_xxh64"))
            found.put(f"{label}steps at the end", row.get("steps"))
        elif event != "checkpoint" and (step or 0) > since:
            found.tree(f"{label}{event} after step {step}",
                       {k: v for k, v in row.items() if k not in ("time", "seconds", "event")},
                       guessed=re.compile("_ms$"))


def read_checkpoint(place, found, folder, label=""):
    """The checkpoint as `inspect` shows it: the hash of every tensor, and what checks them."""
    found.text(f"{label}checkpoint", place.call("inspect", folder)[0])


def look(place, found, file, words=(), label=""):
    """What a run file becomes."""
    for what in LOOKS:
        found.text(f"{label}inspect {what}", place.call("inspect", file, "-s", what, *words)[0])


def simulate(place, found, plan, words=(), label="simulated"):
    out, err = place.call("simulate", plan, "--json", "--execute", *words)
    found.tree(label, json.loads(out))
    found.put(f"{label} beside the executor", err.strip().splitlines())


def train(place, found, sections, words=(), env=None, label="", runs="out"):
    """A run from its first step to its last, its plan, and what was predicted of it."""
    stem = re.sub(r"\W+", "-", label).strip("-") or "run"
    file = place.write(f"{stem}.yaml", as_yaml(sections))
    place.call("train", file, "--runs", runs, *words, env=env)
    folder = os.path.join(runs, stem)
    read_metrics(place, found, folder, label)
    found.text(f"{label}run.yaml", place.read(folder, "run.yaml"))
    found.text(f"{label}plan.yaml", place.read(folder, "plan.yaml"))
    read_checkpoint(place, found, folder, label)
    return folder


# --- runs ---------------------------------------------------------------------------------------

CASES = {}  # name: (kind, function of place and found)


def case(name, kind, function):
    assert name not in CASES, name
    CASES[name] = (kind, function)


def run(name, base=GPT, words=(), env=None, looks=True, only_with="", **keys):
    """One training run, and what is predicted of it."""
    sections = changed(base, **keys)

    def function(place, found):
        if only_with and only_with not in instructions(place.program):
            raise Skipped(f"needs {only_with}, which this CPU lacks")
        folder = train(place, found, sections, words, env)
        if looks:
            look(place, found, "run.yaml", [x for x in words if x != "--canary"])
        simulate(place, found, os.path.join(folder, "plan.yaml"))
    case(name, "run", function)


def resume(name, base=GPT, same=True, words=(), **keys):
    """A run of 6 steps; and steps 4 to 6 again, from OLD's checkpoint of step 3. Where the layout
    has the same bits (`same`), they are those of the run that was not interrupted."""
    sections = changed(changed(base, train={"steps": 6}, checkpoint={"every": 3, "keep": 9}),
                       **keys)

    def function(place, found):
        folder = train(place, found, sections)
        old = place.of_old("run", lambda: folder)
        source = os.path.join(old, "checkpoints", "step-00000003")
        place.call("train", "--resume", source, "--runs", "out/again", *words)
        again = os.path.join("out/again", "run")
        read_checkpoint(place, found, source, "OLD's step 3: ")
        read_metrics(place, found, again, "resumed: ", since=3)
        read_checkpoint(place, found, again, "resumed: ")
        if same:
            for what, value in list(found.same.items()):
                end_of = what.startswith("resumed: ") and re.search("^resumed: (loss|grad_norm|lr|"
                                                                    "weights)", what)
                if end_of and value != found.same[what[len("resumed: "):]]:
                    raise Failed(f"{what}: {value}, without a stop {found.same[what[9:]]}")
    case(name, "run", function)


def resume_longer(place, found):
    """A run that was done goes on, in its own folder."""
    sections = changed(GPT, train={"decay": "none"}, pipeline=2)

    def make():
        return train(place, Found(), sections)
    old = place.of_old("run", make)
    place.call("train", "--resume", old, "steps=6", "parallel.pipeline=3", "schedule=zb-h1")
    read_metrics(place, found, old, since=3)
    read_checkpoint(place, found, old)
    found.text("run.yaml", place.read(old, "run.yaml"))
    whole = Found()
    train(place, whole, changed(sections, train={"steps": 6}), label="whole: ", runs="out/whole")
    if whole.same["whole: weights at the end"] != found.same["weights at the end"]:
        raise Failed("other weights than those of a run that was never interrupted")


def custom(schedule):
    """An order that is read from a file."""
    def function(place, found):
        place.call("simulate", "--schedule", schedule, "-p", 4, "-m", 8, "--csv", "order.csv")
        found.put("order.csv", place.read("order.csv").splitlines())
        order = place.of_old("order.csv", lambda: "order.csv")
        chunks = 2 if schedule in ("zb-v", "interleaved") else 1
        train(place, found, changed(GPT, pipeline=4, chunks=chunks, schedule="custom",
                                    schedule_file=order))
        look(place, found, "run.yaml")
        found.tree("simulated", json.loads(place.call(
            "simulate", "--schedule", "custom", "--csv", order, "--times", "3,4,2", "--json")[0]),
            guessed=re.compile("^$"))
    return function


def cut(place, found):
    """Stages that are cut elsewhere than they would be."""
    place.write("open.yaml", as_yaml(changed(GPT, pipeline=2)))
    plan = place.call("inspect", "open.yaml", "-s", "plan")[0]
    last = int(re.search(r"nodes: \[0, (\d+)\]", plan)[1])
    edited = plan.replace(f"nodes: [0, {last}]", f"nodes: [0, {last - 3}]")
    place.write("cut.yaml", edited.replace(f"nodes: [{last + 1},", f"nodes: [{last - 2},"))
    train(place, found, changed(GPT, plan="cut.yaml"))
    look(place, found, "run.yaml")
    if f"nodes: [0, {last - 3}]" not in "\n".join(found.same["plan.yaml"]):
        raise Failed("the run has another cut than was asked for")


def plan_of_old(*words, **keys):
    """A plan that OLD has written: NEW times it, shows it, and trains by it."""
    sections = changed(GPT, memory="2G", **keys)
    sections["train"].pop("micro_batch")

    def function(place, found):
        place.write("planned.yaml", as_yaml(sections))

        def make():
            place.call("plan", "planned.yaml", *words, "-o", "plan.yaml")
            return "plan.yaml"
        if not place.is_old:
            make()
        old = place.of_old("plan.yaml", make)
        found.text("plan.yaml as written", place.read("plan.yaml"))
        found.text("inspect OLD's plan", place.call("inspect", old)[0])
        simulate(place, found, old, label="OLD's plan simulated")
        train(place, found, changed(sections, plan=old))
    return function


def weights(place, found):
    """A checkpoint of OLD as Hugging Face weights, which a run starts from; and a text from it."""
    old = place.of_old("run", lambda: train(place, Found(), changed(GPT, pipeline=2)))
    place.call("convert", old, "hf")
    for name in sorted(os.listdir(place.path("hf"))):
        with open(place.path("hf", name), "rb") as file:
            found.put(f"sha256 of {name}", hashlib.sha256(file.read()).hexdigest())
    found.put("inspect hf", place.call("inspect", "hf")[0].splitlines())
    for words in ["-s", 3], ["--temperature", 0], ["-s", 9, "-k", 12, "--temperature", 0.7]:
        text = place.call("generate", old, "-p", "one ", "-t", 60, *words)[0]
        found.put(f"text of generate {' '.join(map(str, words))}", text)
    train(place, found, changed(GPT, pipeline=2, model={"weights": "hf/model.safetensors"}),
          label="from weights: ")


def measured(place, found):
    """Predictions from durations that OLD has measured: of a run, and by `profile`."""
    sections = changed(GPT, pipeline=2)
    run_folder = place.of_old("measured", lambda: train(place, Found(), sections))

    def make():
        place.write("profiled.yaml", as_yaml(sections))
        place.call("profile", "profiled.yaml", "-n", 2, "--seconds", 0.05, "-o", "profile.yaml")
        return "profile.yaml"
    profile = place.of_old("profile.yaml", make)
    for name, keys in ("measured", {"measured": run_folder}), ("profile", {"profile": profile}):
        for schedule in "1f1b", "zb-v", "solved":
            file = place.write(f"{name}-{schedule}.yaml",
                               as_yaml(changed(sections, schedule=schedule, **keys)))
            look(place, found, file, label=f"by {name}, {schedule}: ")
    sections["train"].pop("micro_batch")
    file = place.write("open.yaml", as_yaml(changed(sections, memory="2G", pipeline=0)))
    read_plan(place, found, "open.yaml", "-n", 2, "--profile", profile, "train.micro_batch=1")


def define_runs():
    for schedule in SCHEDULES:
        run(f"schedule-{schedule}", pipeline=4, schedule=schedule)
    run("schedule-interleaved-3", pipeline=2, schedule="interleaved", chunks=3)
    run("schedule-solved-2", pipeline=3, schedule="solved", chunks=2, memory="1M")
    run("schedule-1f1b-deep", pipeline=7, model={"layers": 6})
    for schedule in "1f1b", "zb-v":
        case(f"schedule-custom-{schedule}", "run", custom(schedule))
    case("cut", "run", cut)

    for schedule, clip in ("zb-v", 0.01), ("zb-h1", 100), ("zb-h2", 0.5), ("1f1b", 0.01):
        run(f"post-validation-{schedule}", pipeline=3, schedule=schedule, post_validation=True,
            train={"clip": clip})
    run("clip-off", pipeline=2, train={"clip": 0})
    run("clip-small", pipeline=2, train={"clip": 0.05})

    for zero in 0, 1, 2:
        run(f"replicas-zero-{zero}", pipeline=2, data=2, zero=zero)
        run(f"replicas-interleaved-zero-{zero}", pipeline=2, data=2, zero=zero,
            schedule="interleaved", recompute="full")
    run("replicas-3", data=3, pipeline=1)
    run("replicas-unequal", pipeline=2, data=2, replicas=[3, 5])
    run("replicas-throttle", pipeline=1, data=2, throttle=[1, 2])
    run("replicas-post-validation", pipeline=2, data=2, schedule="zb-v", post_validation=True,
        train={"clip": 0.01})
    for replicas in 1, 2, 4:
        run(f"reproducible-{replicas}", pipeline=2, data=replicas, reproducible=4)
    run("cluster-slow-links", pipeline=2, data=2, replicas=[5, 3],
        cluster="2x2 cpu ethernet:10Mb/s")
    run("devices", pipeline=3, devices=[2, 0, 1], cluster="1x2 cpu + 1x1 cpu speed:0.5 ib:1Gb/s")

    run("tensor-2", pipeline=1, tensor=2)
    run("tensor-sequence", pipeline=2, tensor=2, sequence=True)
    run("tensor-unequal", pipeline=1, tensor=2, model={"heads": 3, "channels": 48})
    run("tensor-stages", tensor=[2, 1, 1])
    run("tensor-stages-replicas", tensor=[2, 1], data=2)
    run("tensor-replicas-zb-v", pipeline=2, data=2, tensor=2, zero=2, sequence=True,
        schedule="zb-v", recompute=["none", "full", "none", "selective"], replicas=[3, 5])
    run("tensor-bert", BERT, pipeline=1, tensor=2)
    run("tensor-mlp", MLP, pipeline=2, tensor=2)

    for way in "selective", "full":
        run(f"recompute-{way}", pipeline=2, recompute=way)
        run(f"recompute-{way}-v-min", pipeline=2, schedule="v-min", recompute=way,
            model={"dropout": 0.1})
    run("recompute-list", pipeline=3, schedule="zb-h1", recompute=["full", "selective", "none"])

    run("fp16", pipeline=2, train={"precision": "fp16"})
    run("fp16-overflow", pipeline=2, data=2, train={
        "precision": "fp16", "loss_scale_start": 16777216, "steps": 5, "loss_scale_interval": 2})
    run("fp16-tensor", tensor=2, pipeline=1, train={"precision": "fp16"}, recompute="selective")
    for name, keys in ("", {"pipeline": 2}), ("-replicas", {"pipeline": 1, "data": 2}), (
            "-tensor", {"pipeline": 2, "tensor": 2, "schedule": "zb-v"}):
        run(f"bf16{name}", only_with="avx512_bf16", train={"precision": "bf16"}, **keys)
    run("loss-scale", pipeline=2, train={"loss_scale": 1024})
    run("kernels-generic", pipeline=2, env={"PENSTOCK_ISA": "generic"}, looks=False)
    run("threads-2", pipeline=1, threads=2, model={"channels": 64, "context": 32},
        train={"micro_batch": 4})

    run("mlp", MLP, pipeline=3)
    run("mlp-relu", MLP, pipeline=2, schedule="v-half", model={"activation": "relu"})
    run("gpt-gelu-erf", pipeline=2, model={"activation": "gelu_erf", "dropout": 0.2})
    run("gpt-micro-batches", pipeline=2, train={"micro_batch": 2, "batch": 12, "seed": 5})
    run("bert", BERT, pipeline=2)
    run("bert-zb-v-replicas", BERT, pipeline=2, data=2, schedule="zb-v", recompute="selective")
    run("resnet", CIFAR, pipeline=2)
    run("resnet-mnist-replicas", MNIST, pipeline=2, data=2, schedule="interleaved")
    run("resnet-recompute-fp16", CIFAR, pipeline=2, recompute="full", schedule="zb-v",
        train={"precision": "fp16"})
    run("sgd", pipeline=2, train={"optimizer": "sgd", "momentum": 0.8, "decay": "linear"})
    run("sgd-plain", pipeline=2, data=2, train={"optimizer": "sgd", "momentum": 0})
    run("adamw-other", pipeline=2, train={"beta1": 0.8, "beta2": 0.9, "eps": 1e-6, "steps": 5,
                                          "weight_decay": 0, "lr_min": 1e-4, "warmup": "40%"})
    run("evaluation", pipeline=2, eval={"every": 1, "tokens": 64,
                                        "sets": {"other": "../data/other.txt"}})
    run("evaluation-all-replicas", pipeline=2, data=2, schedule="zb-v", eval={"tokens": "all"})
    run("evaluation-bert", BERT, pipeline=2, eval={"every": 2, "tokens": 100})
    run("canary", words=["--canary"], pipeline=2, schedule="dualpipev")
    run("plan-auto", words=["-n", 4], looks=False, plan="auto", memory="2G")
    run("plan-auto-solved", words=["-n", 3], looks=False, plan="auto", memory="2G", pipeline=3,
        schedule="solved")
    run("preset-nano", model={"layers": 0, "heads": 0, "channels": 0, "context": 0,
                              "preset": "nano"}, train={"steps": 1, "batch": 4}, pipeline=2)

    run("ranks-1f1b", pipeline=2, transport="ucx")
    run("ranks-1", pipeline=1, transport="auto")
    run("ranks-zb-v", pipeline=2, transport="ucx", schedule="zb-v", post_validation=True,
        train={"clip": 0.01})
    run("ranks-replicas", pipeline=1, data=2, transport="ucx")
    run("ranks-tensor", pipeline=1, tensor=2, sequence=True, transport="ucx")
    run("ranks-grid", pipeline=2, data=2, zero=2, schedule="interleaved", transport="ucx")
    run("ranks-fp16-bert", BERT, pipeline=2, transport="ucx", train={"precision": "fp16"})

    resume("resume", pipeline=2)
    resume("resume-other-layout", pipeline=2, words=["parallel.pipeline=4", "schedule=zb-h1",
                                                     "recompute=full"])
    resume("resume-zero-2", pipeline=2, data=2, zero=2, schedule="interleaved")
    resume("resume-zero-1-to-0", pipeline=1, data=2, words=["zero=0"])
    resume("resume-reproducible", pipeline=1, data=4, reproducible=4, words=["parallel.data=2"])
    resume("resume-tensor", pipeline=1, tensor=2)
    resume("resume-tensor-to-replicas", pipeline=2, tensor=2, same=False,
           words=["parallel.tensor=1", "parallel.data=2"])
    resume("resume-fp16", pipeline=2, train={
        "precision": "fp16", "loss_scale_start": 16777216, "loss_scale_interval": 1})
    resume("resume-sgd", pipeline=2, train={"optimizer": "sgd"})
    resume("resume-bert", BERT, pipeline=2)
    resume("resume-resnet", CIFAR, pipeline=2)
    resume("resume-ranks", pipeline=2, transport="ucx")
    case("resume-longer", "run", resume_longer)
    case("weights", "run", weights)
    for name, words, keys in (
            ("open", ["-n", 4], {}), ("solved", ["-n", 3], {"pipeline": 3, "schedule": "solved"}),
            ("grid", ["-n", 8], {"pipeline": 2, "tensor": 2}), ("zero-2", ["-n", 4], {
                "data": 2, "zero": 2, "schedule": "interleaved"})):
        case(f"plan-of-old-{name}", "run", plan_of_old(*words, **keys))


# --- predictions --------------------------------------------------------------------------------

GPT2 = {"model": {"kind": "gpt", "preset": "gpt2"}, "data": {"paths": ["../data/text.txt"]},
        "train": {"batch": 64}, "parallel": {}}
XL = changed(GPT2, model={"preset": "gpt2-xl"}, train={"precision": "bf16"})
NANO = changed(GPT2, model={"preset": "nano"}, train={"batch": 16})
GPT3 = changed(GPT2, model={"preset": "", "layers": 96, "heads": 96, "channels": 12288,
                            "context": 2048, "vocabulary": 51200},
               train={"batch": 1536, "precision": "bf16"})
CLUSTERS = [
    ("xl-2x8-h100", changed(XL, train={"batch": 240}), "2x8 h100 ib:4x200Gb/s/2"),
    ("xl-2x4-a100", XL, "2x4 a100-80 ib:100Gb/s"),
    ("xl-two-kinds", XL, "1x8 a100-40 + 1x8 h100 ib:400Gb/s"),
    ("xl-slow", XL, "4x8 h100 ib:10Gb/s"),
    ("gpt2-ethernet-4", GPT2, "4x1 h100 ethernet:10Gb/s"),
    ("gpt2-ethernet-8", GPT2, "8x1 h100 ethernet:10Gb/s"),
    ("gpt2-three-nodes", GPT2, "1x3 h100 + 2x2 v100 ib:25Gb/s"),
    ("gpt2-one-node", GPT2, "8 h100"),
    ("gpt2-tight", GPT2, "4 h100 memory:3GiB"),
    ("gpt2-fp8", changed(GPT2, train={"precision": "fp8"}), "2x4 h200 ib:400Gb/s"),
    ("gpt2-tensors", changed(GPT2, tensor=[2, 1, 1]), "4 h100"),
    ("bert-large", changed(BERT, model={"preset": "large", "layers": 0, "heads": 0, "channels": 0,
                                        "context": 0},
                           train={"batch": 256, "micro_batch": 0, "precision": "fp16"}),
     "2x4 a100-40 ib:200Gb/s"),
    ("resnet18", changed(CIFAR, model={"preset": "resnet18", "layers": 0, "channels": 0},
                         train={"batch": 256, "micro_batch": 0}), "4 v100"),
    ("nano-cpu", NANO, "2x2 cpu ib:100Mb/s"),
    ("nano-cpu-fast", NANO, "2x2 cpu ib:1Gb/s"),
    ("xl-solved", changed(XL, schedule="solved", pipeline=4), "4 b200"),
    ("gpt3-1024", GPT3, "128x8 h100 nvlink:900GB/s ib:400Gb/s")]


def read_plan(place, found, *words):
    """What `plan` chooses, and why not others."""
    plan = json.loads(place.call("plan", *words, "--json")[0])
    layout = plan.pop("layout")
    predicted, rows = layout.pop("predicted"), plan.pop("rows")
    found.guess("predicted step, s", plan.pop("step_s"))
    found.put("chosen layout", json.dumps(layout))
    found.tree("predicted", predicted)
    searched = plan.pop("searched")
    searched.pop("seconds")
    found.tree("plan", plan)
    found.guess("searched", json.dumps(searched))
    for row in rows:
        degrees = " x ".join(str(row.pop(key)) for key in ("pipeline", "tensor", "data"))
        found.guess(f"row {degrees}", json.dumps(row))


def cluster(sections, devices):
    def function(place, found):
        place.write("run.yaml", as_yaml(sections))
        read_plan(place, found, "run.yaml", "--cluster", devices, "-o", "plan.yaml")
        found.text("plan.yaml", place.read("plan.yaml"))
    return function


def plan_text(place, found):
    """The words of a plan, and of one that does not fit."""
    place.write("run.yaml", as_yaml(NANO))
    out = place.call("plan", "run.yaml", "--cluster", "2x2 cpu ib:1Gb/s")[0].splitlines()
    found.put("layout", [x for x in out if re.match("layout|memory|costs", x)])
    found.guess("the whole answer", [re.sub(r" in [0-9.]+ s$", "", x) for x in out])
    err = place.call("plan", "run.yaml", "--cluster", "2x1 h100 memory:1MiB ib:1Gb/s",
                     status=4)[1]
    found.put("what would fit", err.splitlines())


def simulated(schedule):
    """A schedule over stages whose durations are given: nothing of it is modelled."""
    equal = ["-p", 4, "-m", 8, "--times", "1,1,1"]
    cases = {"equal": equal, "messages": ["-p", 4, "-m", 9, "--times", "3,4,2", "--transfer", 0.5],
             "unequal": ["-p", 4, "-m", 8, "--times", "1,2,1:2,2,2:1,1,1:3,3,3", "--transfer",
                         0.25],
             "deep": ["-p", 7, "-m", 16, "--times", "2,3,4"]}
    if schedule == "solved":
        cases["memory"] = cases["unequal"] + ["--memory", 3]
        cases["two chunks"] = equal + ["--chunks", 2, "--memory", 2.5]

    def function(place, found):
        for name, words in cases.items():
            out, err = place.call("simulate", "--schedule", schedule, *words, "--json",
                                  "--execute", "--csv", "order.csv")
            found.tree(name, json.loads(out), guessed=re.compile("^$"))
            found.put(f"{name}, beside the executor", err.strip().splitlines())
            found.put(f"{name}, order", place.read("order.csv").splitlines())
    return function


def simulated_all(place, found):
    for name, words in (("equal", ["-p", 8, "-m", 32]), ("memory", ["-p", 4, "-m", 8, "--memory",
                                                                   4, "--times", "2,3,2"])):
        out = place.call("simulate", "--schedule", "all", *words)[0].splitlines()
        found.put(name, out)
        names = {line.split()[0] for line in out[1:]}
        if names != set(SCHEDULES):
            raise Failed(f"schedules {' '.join(sorted(names ^ set(SCHEDULES)))}: SCHEDULES of this "
                         "program and those of the build are not the same")


def predicted(sections, *words):
    """What a run file that is too large to train here becomes, and what it would take."""
    def function(place, found):
        place.write("run.yaml", as_yaml(sections))
        plan = place.call("inspect", "run.yaml")[0]
        os.makedirs(place.path("out"), exist_ok=True)
        place.write("plan.yaml", plan)
        simulate(place, found, "plan.yaml", words)
        look(place, found, "run.yaml")
    return function


PIPER = {"maxDevices": 6, "maxMemoryPerDevice": 400.0, "bandwidth": 1024.0, "mbsInBatch": 12,
         "nodes": [{"id": i, "name": "layer", "TMPCs": {
             str(n): [{"id": name, "timePerSample": (0.25 + 0.125 * i) * more / n,
                       "parameterSize": 64.0 / n, "memoryUsageA": kept / n,
                       "memoryUsageB": 128.0 / n,
                       "syncTimeFw": {str(i - 1): 8.0 * (n - 1)} if i else {},
                       "syncTimeBw": {str(i + 1): 16.0 * (n - 1)} if i < 3 else {}}
                      for name, more, kept in (("keep", 1, 32.0), ("again", 1.25, 8.0))]
             for n in (1, 2)}} for i in range(4)],
         "edges": [{"sourceId": i, "destId": i + 1, "communicationCost": 16.0} for i in range(3)]}
DNN = {"maxSizePerFPGA": 100, "maxFPGAs": 2, "maxCPUs": 1,
       "nodes": [{"id": i, "supportedOnFpga": 1, "cpuLatency": 40 + i, "fpgaLatency": 4 + i % 3,
                  "isBackwardNode": 0, "size": 30} for i in range(6)],
       "edges": [{"sourceId": i, "destId": i + 1, "cost": 0.5 + i % 2} for i in range(5)]}
PIPEDREAM = "".join(
    f"node{i} -- Linear -- forward_compute_time={i}.0, backward_compute_time={i + 1}.5, "
    f"activation_size={1000 * i}.0, parameter_size={5000 * (i % 3)}.0\n" for i in range(1, 8)) + \
    "".join(f"\tnode{i} -- node{i + 1}\n" for i in range(1, 7))


def other_planners(place, found):
    """Workloads of other planners."""
    place.write("piper.json", json.dumps(PIPER))
    place.write("dnn.json", json.dumps(DNN))
    place.write("graph.txt", PIPEDREAM)
    for words in (["piper.json"], ["dnn.json"], ["dnn.json", "--devices", 1, "--memory", 400],
                  ["graph.txt", "--devices", 4, "--bandwidth", "1e9"],
                  ["graph.txt", "--devices", 2, "--machines", 2, "--bandwidth", "1e9", "--between",
                   "1e8", "--compression", 1],
                  ["graph.txt", "--straight", "--cluster", "1x1 h100 + 1x1 a100-80 ib:400Gb/s"]):
        out = place.call("plan", "--graph", *words, "--json")[0]
        answer = json.loads(out)
        for key in [key for key in answer if "seconds" in key]:
            answer.pop(key)
        found.put(" ".join(map(str, words)), json.dumps(answer))


def define_predictions():
    for schedule in SCHEDULES:
        case(f"simulate-{schedule}", "prediction", simulated(schedule))
    case("simulate-all", "prediction", simulated_all)
    for name, sections, devices in CLUSTERS:
        case(f"cluster-{name}", "prediction", cluster(sections, devices))
    case("plan-text", "prediction", plan_text)
    case("plan-graph", "prediction", other_planners)
    case("measured", "prediction", measured)
    small = changed(GPT2, train={"batch": 16, "micro_batch": 1})
    for name, sections, words in (
            ("gpt2-zb-v", changed(small, pipeline=4, schedule="zb-v", threads=1), []),
            ("gpt2-solved", changed(small, pipeline=3, schedule="solved", threads=1), []),
            ("gpt2-bf16-h100", changed(small, pipeline=2, data=2, zero=2, tensor=2, sequence=True,
                                       schedule="interleaved", cluster="2x4 h100 ib:100Gb/s",
                                       train={"precision": "bf16"}),
             ["--what-if", "link.ib=10Gb/s"]),
            ("gpt2-post-validation", changed(small, pipeline=4, schedule="zb-h1", threads=1,
                                             post_validation=True), ["--transfer", 10]),
            ("gpt2-tensors", changed(small, tensor=[4, 2, 1], recompute="selective",
                                     cluster="1x4 h100 + 1x3 a100-80 ib:200Gb/s"),
             ["--what-if", "device.1.speed=0.5"]),
            ("bert-base", changed(BERT, model={
                "preset": "base", "layers": 0, "heads": 0, "channels": 0, "context": 0},
                pipeline=2, tensor=2, schedule="v-half"), []),
            ("resnet18", changed(CLUSTERS[12][1], pipeline=2, data=2, threads=1,
                                 train={"batch": 16, "micro_batch": 2}), [])):
        case(f"predicted-{name}", "prediction", predicted(sections, *words))


# --- comparing ----------------------------------------------------------------------------------


@functools.cache
def instructions(program):
    """Instruction sets, by which bits may differ, and the CPU, by which predictions may."""
    child = subprocess.run([program, "doctor", "--json"], capture_output=True, text=True,
                           timeout=LIMIT_S, check=False)
    try:
        cpu = json.loads(child.stdout)["cpu"]
    except (ValueError, KeyError):
        raise SystemExit(f"{program} doctor: status {child.returncode}: {child.stderr}") from None
    return " ".join([*cpu["instruction_sets"], cpu["kernels"], cpu["model"], str(cpu["usable"])])


def make(name, program, folder, old_folder):
    """What a program comes to in one case."""
    place = Place(program, os.path.join(folder, name), os.path.join(old_folder, name))
    found = Found()
    start = time.monotonic()
    failed = skipped = ""
    try:
        CASES[name][1](place, found)
    except Skipped as e:
        skipped = str(e)
    except (Failed, OSError, KeyError, TypeError, ValueError, AttributeError) as e:
        failed = str(e) if isinstance(e, Failed) else f"{type(e).__name__}: {e}"
    for rest in "out", "old", "hf":
        shutil.rmtree(place.path(rest), ignore_errors=True)
    return {"same": found.same, "predicted": found.predicted, "failed": failed,
            "skipped": skipped, "seconds": time.monotonic() - start}


def short(value, other, width=150):
    """A value in one line, and of a long one what surrounds the first difference."""
    text = value if isinstance(value, str) else json.dumps(value)
    other = other if isinstance(other, str) else json.dumps(other)
    text = text.replace("\n", "\\n")
    if len(text) <= width:
        return text
    at = next((i for i, (a, b) in enumerate(zip(text, other)) if a != b), 0)
    start = max(0, at - width // 2)
    return ("..." if start else "") + text[start:start + width] + "..."


def number(value):
    """Of a number, and of a duration or share in words; else None."""
    if isinstance(value, str) and GUESS.fullmatch(value):
        return float(re.match(f"~?({NUMBER})", value)[1])
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def change(old, new):
    """Two values, and the ratio of numbers."""
    ratio = ""
    if number(old) and number(new) is not None:
        ratio = f"  (x {number(new) / number(old):.6g})"
    return f"{short(old, new)} -> {short(new, old)}{ratio}"


def differences(old, new):
    """Lines about what differs in one value: all lines of a text, the first of many numbers."""
    if not isinstance(old, list) or not isinstance(new, list) or not all(
            isinstance(x, str) for x in old + new):
        return [change(old, new)]
    if len(old) == len(new) and all(number(x) is not None for x in old + new):
        pairs = [(a, b) for a, b in zip(old, new) if a != b]
        return [f"{len(pairs)} of {len(old)} numbers, the first {change(*pairs[0])}"]
    lines, n = [], 0
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for tag, a, a_end, b, b_end in blocks if len(old) + len(new) < 4000 else []:
        if tag == "equal":
            continue
        for i in range(max(a_end - a, b_end - b)):
            n += 1
            left = old[a + i].strip() if a + i < a_end else "nothing"
            right = new[b + i].strip() if b + i < b_end else "nothing"
            if n <= SHOWN:
                lines.append(f"line {(a if a + i < a_end else b) + i + 1}: {change(left, right)}")
    if n > SHOWN:
        lines.append(f"{n - SHOWN} more lines")
    return lines or [f"{len(old)} lines -> {len(new)} other lines"]


def compare(old, new):
    """Lines about results that have to be the same, and about predictions."""
    if old["failed"] or new["failed"]:
        return [f"{who} fails: {x['failed']}" for who, x in (("OLD", old), ("NEW", new))
                if x["failed"]], []
    found = []
    for part in "same", "predicted":
        lines = []
        for what in [*old[part], *(x for x in new[part] if x not in old[part])]:
            a, b = old[part].get(what, "nothing"), new[part].get(what, "nothing")
            if a != b:
                lines += [f"{what}: {line}" for line in differences(a, b)]
        found.append(lines)
    return found


# --- saving -------------------------------------------------------------------------------------


def save(file, head, results):
    """Results as JSON; what is long and stands in several of them, once."""
    texts = {}

    def shorter(values):
        for what, value in values.items():
            if isinstance(value, list) and len(value) > 8:
                text = json.dumps(value)
                key = hashlib.sha256(text.encode()).hexdigest()
                texts[key] = value
                values = {**values, what: {"text": key}}
        return values
    cases = {name: {**x, "same": shorter(x["same"]), "predicted": shorter(x["predicted"])}
             for name, x in results.items()}
    with open(file, "w", encoding="utf-8") as out:
        json.dump({**head, "cases": cases, "texts": texts}, out, indent=0)


def load(file):
    with open(file, encoding="utf-8") as saved:
        head = json.load(saved)
    cases, texts = head.pop("cases"), head.pop("texts")
    for x in cases.values():
        for part in "same", "predicted":
            x[part] = {what: texts[value["text"]] if isinstance(value, dict) else value
                       for what, value in x[part].items()}
    return head, cases


def empty_folder(folder):
    """A folder for OLD's files that stay; only one that was made here is emptied."""
    if os.path.isdir(folder) and os.listdir(folder):
        if not os.path.exists(os.path.join(folder, MARK)):
            raise SystemExit(f"{folder} is there, and was not made by this program")
        shutil.rmtree(folder)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, MARK), "w", encoding="ascii"):
        pass


# --- the program itself -------------------------------------------------------------------------


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="OLD and NEW")
    parser.add_argument("--only", metavar="NAME,...", default="*",
                        help="these runs and predictions; patterns such as 'schedule-*'")
    parser.add_argument("--jobs", type=int, default=1, help="so many at a time (1)")
    parser.add_argument("--save", metavar="FILE",
                        help="save what OLD came to: FILE, and a folder beside it for its plans "
                        "and checkpoints")
    parser.add_argument("--old-saved", metavar="FILE", help="take what was saved as OLD")
    parser.add_argument("--predictions-may-differ", action="store_true",
                        help="other predicted durations are notes, one a run, no differences")
    parser.add_argument("--list", action="store_true", help="print all names")
    parser.add_argument("-v", "--verbose", action="store_true",
                        help="print each name with its seconds, and all notes")
    args = parser.parse_args()
    wanted = args.only.split(",")
    args.names = [x for x in CASES if any(fnmatch.fnmatch(x, y) for y in wanted)]
    for pattern in wanted:
        if not fnmatch.filter(CASES, pattern):
            parser.error(f"no run or prediction is called {pattern}; --list prints all")
    if args.list:
        return args
    given = [os.path.abspath(x) for x in args.programs]
    if args.save and args.old_saved or len(given) > 2:
        parser.error("one OLD and one NEW; --save or --old-saved")
    args.old = None if args.old_saved else given[0] if given else None
    args.new = given[-1] if len(given) == 2 or given and args.old_saved else None
    if not args.new and not args.save:
        needs.check()
        args.new = PENSTOCK
    if not args.old and not args.old_saved:
        parser.error("which program is the old one? Or --old-saved FILE")
    for program in filter(None, (args.old, args.new)):
        if not os.access(program, os.X_OK):
            parser.error(f"{program} is no program")
    return args


class Count:
    """What is printed of each case, and the line at the end."""

    def __init__(self, args):
        self.args, self.kinds = args, {"run": 0, "prediction": 0}
        self.equal = self.differ = self.skipped = self.noted = 0

    def add(self, name, old, new):
        if self.args.verbose:
            spent = f"{old['seconds']:.2f} s" + (f", {new['seconds']:.2f} s" if new else "")
            print(f"{name}  {spent}", flush=True)
        reason = old["skipped"] or new and new["skipped"]
        if reason:
            self.skipped += 1
            print(f"skipped: {name}: {reason}", flush=True)
            return
        self.kinds[CASES[name][0]] += 1
        bad, guesses = compare(old, new or {**old, "failed": ""})
        if not self.args.predictions_may_differ:
            bad, guesses = bad + guesses, []
        for line in bad:
            print(f"{name}: {line}", flush=True)
        for i, line in enumerate(guesses if self.args.verbose else guesses[:1]):
            more = "" if i or len(guesses) == 1 or self.args.verbose else \
                f"; and {len(guesses) - 1} more"
            print(f"note: {name}: {line}{more}", flush=True)
        self.differ += bool(bad)
        self.noted += bool(guesses)
        self.equal += not bad

    def __str__(self):
        noted = f" ({self.noted} but for predictions)" if self.noted else ""
        return (f"{self.kinds['run']} runs, {self.kinds['prediction']} predictions: "
                f"{self.equal} equal{noted}, {self.differ} differ, {self.skipped} skipped")


def main():
    define_runs()
    define_predictions()
    args = arguments()
    if args.list:
        print("\n".join(args.names))
        return 0
    start, count = time.monotonic(), Count(args)
    here = instructions(args.new or args.old)
    saved = {}
    with tempfile.TemporaryDirectory(prefix="same-bits-") as work:
        work = os.path.realpath(work)
        old_folder = os.path.join(work, "old")
        if args.old_saved:
            head, saved = load(args.old_saved)
            old_folder = head["folder"]
            if head["machine"] != here:
                raise SystemExit(f"{args.old_saved} was saved on another machine: "
                                 f"{head['machine']}, not {here}")
            print(f"OLD is {head['program']}, as saved {head['date']}")
        elif args.save:
            old_folder = os.path.realpath(os.path.splitext(args.save)[0])
            if old_folder == os.path.realpath(args.save):
                raise SystemExit("--save FILE.json, beside which FILE is a folder")
            empty_folder(old_folder)
        write_data(os.path.join(work, "data"))
        if not args.old_saved:
            write_data(os.path.join(old_folder, "data"))
        new_folder = os.path.join(work, "new")
        os.makedirs(new_folder)
        os.symlink("../data", os.path.join(new_folder, "data"))

        def both(name):
            absent = {"same": {}, "predicted": {}, "failed": "", "seconds": 0,
                      "skipped": f"{args.old_saved} does not have it"}
            old = saved.get(name, absent) if args.old_saved else make(name, args.old, old_folder,
                                                                      old_folder)
            usable = args.new and not old["failed"] and not old["skipped"]
            return old, make(name, args.new, new_folder, old_folder) if usable else None

        results = {}
        pool = ThreadPoolExecutor(args.jobs) if args.jobs > 1 else None
        try:
            for name, (old, new) in zip(args.names, (pool.map if pool else map)(both, args.names)):
                results[name] = old
                count.add(name, old, new)
        finally:
            if pool:
                pool.shutdown(cancel_futures=True)
        if args.save:
            save(args.save, {"program": args.old, "folder": old_folder, "machine": here,
                             "date": time.strftime("%Y-%m-%d %H:%M")}, results)
    print(f"{count}; {time.monotonic() - start:.0f} s")
    return 1 if count.differ else 0


if __name__ == "__main__":
    sys.exit(main())
