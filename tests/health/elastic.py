#!/usr/bin/env python3
"""Elastic runs whose ranks are killed: test_elastic.sh does it at known moments, test_elastic_layouts.sh in many
layouts, test_elastic_soak.sh at any moment. Each run must exit with 0, with the weights of an undisturbed run, each
step once, and no process or file left.

    elastic.py moments | layouts | soak ROUNDS [SEED]    (PENSTOCK: the program; the current folder is written to)
"""
import glob
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time

PROGRAM = os.environ["PENSTOCK"]
PATIENCE = 90  # seconds; a run takes a few
SMALL = """name: run
model: {kind: gpt, layers: 4, heads: 2, channels: 32, context: 32}
data: {kind: text, paths: [text], validation: 0}
train: {steps: 40, batch: 8, micro_batch: 2, lr: 1.0e-3, warmup: 0}
parallel: {threads: 1}
checkpoint: {every: 7, keep: 2}
"""
NANO = """name: run
model: {kind: gpt, preset: nano}
data: {kind: text, paths: [text], validation: 0}
train: {steps: 20, batch: 32, lr: 1.0e-3, warmup: 0}
parallel: {threads: 1}
checkpoint: {every: 8, keep: 2}
"""


def begin(words, fault=""):
    log = open("log", "w", encoding="utf-8")
    return subprocess.Popen([PROGRAM, "train", "run.yaml"] + words, stdout=log, stderr=subprocess.STDOUT,
                            stdin=subprocess.DEVNULL, process_group=0,
                            env=dict(os.environ, PENSTOCK_FAULT=fault) if fault else None)


def ranks_of(p):
    try:
        with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
            return [int(c) for c in f.read().split()]
    except OSError:
        return []


def lines():
    try:
        with open("runs/run/metrics.jsonl", encoding="utf-8") as f:
            text = f.read()
    except OSError:
        return []
    return [json.loads(line) for line in text.split("\n")[:-1]]


def steps():
    return [line["step"] for line in lines() if "event" not in line]


def events(name):
    return [line for line in lines() if line.get("event") == name]


def wait_for(p, true):
    end = time.monotonic() + PATIENCE
    while p.poll() is None and not true():
        assert time.monotonic() < end, "nothing happens"
        time.sleep(0.002)


def send(pid, number):
    try:
        os.kill(pid, number)
        return 1
    except ProcessLookupError:
        return 0


def leftovers():
    found = glob.glob("runs/run/.*") + glob.glob("runs/run/checkpoints/.*") + glob.glob("runs/run-*")
    mine = b"PENSTOCK=" + PROGRAM.encode()
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            with open(folder + "/environ", "rb") as f, open(folder + "/cwd/run.yaml", "rb"):
                if mine in f.read().split(b"\0") and os.path.realpath(folder + "/cwd") == os.getcwd():
                    name = os.readlink(folder + "/exe")
                    if os.path.basename(name).startswith("penstock"):
                        found.append(folder)
        except OSError:
            pass
    return found


def weights_after(p):
    """Checks the end of a run, which must be good; its weights."""
    status = p.wait(PATIENCE)
    with open("log", encoding="utf-8") as f:
        log = f.read()
    assert status == 0, f"status {status}: {log}"
    last = lines()[-1]
    assert last.get("why") == "done", f"{last}: {log}"
    seen = steps()
    assert seen == list(range(1, last["steps"] + 1)), f"steps {seen}: {log}"
    left = leftovers()
    assert not left, f"left: {left}"
    return last["weights_xxh64"]


def fresh():
    shutil.rmtree("runs", ignore_errors=True)


def undisturbed(words):
    """The weights of a run of one stage, which those of several stages have, too."""
    fresh()
    lanes = 1
    for word in words:
        if word.startswith(("parallel.data=", "parallel.tensor=")):
            lanes *= int(word.partition("=")[2])
    return weights_after(begin([w for w in words if "pipeline" not in w] + ["-n", str(lanes)]))


# --- known moments -----------------------------------------------------------------------------------------------

def after_step(p, step):
    wait_for(p, lambda: len(steps()) >= step)


def kill_at_step(p, step, who, number=signal.SIGKILL):
    after_step(p, step)
    ranks = ranks_of(p)
    return [send(ranks[i], number) for i in who]


def first_rank(p):
    kill_at_step(p, 5, [0])


def middle_rank(p):
    kill_at_step(p, 9, [2])


def two_at_once(p):
    kill_at_step(p, 4, [1, 3])


def at_the_start(p):
    wait_for(p, lambda: len(ranks_of(p)) == 4)
    send(ranks_of(p)[1], signal.SIGKILL)


def inside_a_recovery(p):
    kill_at_step(p, 4, [3])
    wait_for(p, lambda: "the other ranks go on" in open("log", encoding="utf-8").read())
    time.sleep(0.03)
    send(ranks_of(p)[0], signal.SIGKILL)


def down_to_one(p):
    for step in (3, 8, 13):
        kill_at_step(p, step, [0])
        wait_for(p, lambda: len(steps()) > step + 2)


def evicted(p):
    kill_at_step(p, 6, [2], signal.SIGTERM)


def stopped(p):
    kill_at_step(p, 5, [1], signal.SIGSTOP)


def resize(n):
    """Requests so many ranks; 1: done."""
    return subprocess.run([PROGRAM, "resize", "runs/run", "-n", str(n)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=PATIENCE, check=False).returncode == 0


def up_and_down(p):
    """More ranks, one of them dies, fewer ranks, and the first one leaves."""
    after_step(p, 3)
    assert resize(6), "not resized"
    kill_at_step(p, 6, [5])
    after_step(p, 9)
    assert resize(3), "not resized"
    subprocess.run([PROGRAM, "drain", "runs/run", "0"], check=True, timeout=PATIENCE, stdout=subprocess.DEVNULL)
    assert [(e["from"], e["ranks"]) for e in events("resize")] == [(4, 6), (5, 3), (3, 2)], events("resize")


def spare(p):
    kill_at_step(p, 5, [1])
    wait_for(p, lambda: events("recovery"))
    assert events("recovery")[0]["ranks"] == 4, "the spare has no rank"


def nothing(_):
    pass


# What is done to a run, its arguments, its ranks, and a fault (PENSTOCK_FAULT of CONTRIBUTING.md).
MOMENTS = {
    "first rank": (first_rank, [], 4),
    "middle rank": (middle_rank, [], 4),
    "two at once": (two_at_once, [], 4),
    "at the start": (at_the_start, [], 4),
    "inside a recovery": (inside_a_recovery, [], 4),
    "down to one": (down_to_one, [], 4),
    "evicted": (evicted, [], 4),
    "stopped": (stopped, [], 4),
    "inside the flush": (nothing, [], 4, "kill:rank=3,message=33"),
    "a spare": (spare, ["elastic.spare=1"], 4),
    "hung": (nothing, [], 4, "stall:rank=2,message=60"),
}
LAYOUTS = {
    "two replicas": (middle_rank, ["parallel.data=2"], 4),
    "two tensor ranks": (first_rank, ["parallel.tensor=2", "parallel.pipeline=2"], 4),
    "sharded states": (middle_rank, ["parallel.data=2", "parallel.zero=1"], 4),
    "sharded gradients, bf16": (middle_rank, ["parallel.data=2", "parallel.zero=2", "train.precision=bf16"], 4),
    "states in bf16": (middle_rank, ["train.optimizer_state=bf16"], 4),
    "packed gradients": (middle_rank, ["parallel.data=2", "parallel.compress.up=int8"], 4),
    "packed changes": (middle_rank, ["parallel.data=2", "parallel.zero=1", "parallel.compress.up=int8",
                                     "parallel.compress.down=int8"], 4),
    "muon": (middle_rank, ["train.optimizer=muon", "parallel.data=2"], 4),
    "muon, two tensor ranks": (first_rank, ["train.optimizer=muon", "parallel.tensor=2", "parallel.pipeline=2"], 4),
    "lamb": (middle_rank, ["train.optimizer=lamb"], 4),
    "step before the norm": (middle_rank, ["parallel.post_validation=true", "train.clip=1"], 4),
    "rewinds": (middle_rank, ["train.spike=rewind", "train.spike_factor=2"], 4),
    "frozen weights": (middle_rank, ["train.freeze=[wte.*]"], 4),
    "more and fewer ranks": (up_and_down, ["model.layers=5", "train.batch=32", "train.steps=60"], 4),
}


def each(parts):
    """Returns the weights of the plain run."""
    write(SMALL)
    known = {}
    for name, (act, words, n, *fault) in parts.items():
        key = tuple(w for w in words if "elastic" not in w)
        if key not in known:
            known[key] = undisturbed(list(key))
        fresh()
        p = begin(words + ["-n", str(n), "--elastic"], *fault)
        act(p)
        got = weights_after(p)
        assert got == known[key], f"{name}: other weights"
        assert events("recovery") or act is at_the_start, f"{name}: no recovery"
        print(name, [(e["ranks"], round(e["seconds"], 2), round(e["predicted_seconds"], 2))
                     for e in events("recovery")], flush=True)
    return known.get(())


def moments():
    expected = each(MOMENTS)
    too_few("one left", ["-n", "3", "--elastic=2"], [0, 2], expected)
    too_few("none left", ["-n", "2", "--elastic"], [0, 1], expected)
    told_to_leave(expected)


def too_few(name, words, who, expected):
    """Fewer ranks are left than the run needs: the last step is saved, in place of earlier ones, and can be resumed."""
    fresh()
    p = begin(words + ["checkpoint.every=4", "checkpoint.keep=1"])
    kill_at_step(p, 10, who)
    status = p.wait(PATIENCE)
    with open("log", encoding="utf-8") as f:
        log = f.read()
    assert status == 4, f"{name}: status {status}: {log}"
    done = steps()
    checkpoints = glob.glob("runs/run/checkpoints/step-*")
    assert len(checkpoints) == 1, f"{name}: {checkpoints}"
    saved = int(checkpoints[0][-8:])
    assert saved == done[-1] or saved == done[-1] - 1, f"{name}: saved {saved}, done {done[-1]}: {log}"
    assert f"step {saved} is saved" in log and not leftovers(), f"{name}: {leftovers()} {log}"
    subprocess.run([PROGRAM, "train", "--resume", "runs/run", "-n", "3", "-q"], check=True, timeout=PATIENCE)
    assert lines()[-1]["weights_xxh64"] == expected, f"{name}: other weights"
    assert steps() == list(range(1, 41)), f"{name}: steps {steps()}"


def told_to_leave(expected):
    """SIGTERM to all ranks, and not to the launcher: the run is saved, and can be resumed."""
    fresh()
    p = begin(["-n", "3", "parallel.pipeline=3", "--elastic"])
    kill_at_step(p, 5, [0, 1, 2], signal.SIGTERM)
    status = p.wait(PATIENCE)
    assert status in (-signal.SIGTERM, 128 + signal.SIGTERM), f"told to leave: status {status}"
    assert not leftovers()
    subprocess.run([PROGRAM, "train", "--resume", "runs/run", "-q"], check=True, timeout=PATIENCE)
    end = lines()[-1]
    assert end["weights_xxh64"] == expected, f"told to leave: {end}"
    ranks = [len(line["predicted_region_bytes"]["weights"]) for line in events("start")]
    assert ranks[-1] == 3, f"resumed with {ranks[-1]} ranks"


def hung_in_recovery():
    """A rank hangs, and another one is lost before the detector of hangs sees it."""
    fresh()
    p = begin(["-n", "4", "--elastic", "train.hang_slack=100"], "spin:rank=2,message=60")
    seen = -1
    while seen < max(len(steps()), 1):
        seen = len(steps())
        time.sleep(1.5)
    send(ranks_of(p)[0], signal.SIGKILL)
    return weights_after(p)


# --- any moment --------------------------------------------------------------------------------------------------

def disturb(p, dice):
    """One kill at any moment of the run or of its start, or two, of which the second may meet a recovery; other numbers
    of ranks before and between them."""
    step = dice.randrange(-2, 18)
    if step < 0:
        wait_for(p, lambda: len(ranks_of(p)) == 4)
        time.sleep(dice.random() * 0.5)
    else:
        after_step(p, step)
        time.sleep(dice.random() * 0.2)
    kills = dice.choice((1, 1, 1, 2))
    changes = dice.choice((0, 0, 1, 2))
    for _ in range(kills + changes):
        ranks = ranks_of(p)
        if dice.randrange(kills + changes) < changes:
            resize(dice.randrange(2, 7))
        elif ranks:
            send(dice.choice(ranks), signal.SIGKILL)
        time.sleep(dice.random() * 0.4)


def soak(rounds, seed):
    write(NANO)
    dice = random.Random(seed)
    expected = undisturbed([])
    times = []
    changes = 0
    print(f"seed {seed}", flush=True)
    assert hung_in_recovery() == expected, "hung in a recovery: other weights"
    print(f"hung in a recovery: {[round(e['seconds'], 1) for e in events('recovery')]} s", flush=True)
    for i in range(rounds):
        fresh()
        p = begin(["-n", "4", "--elastic"])
        disturb(p, dice)
        got = weights_after(p)
        assert got == expected, f"round {i}: other weights"
        times += [(e["seconds"], e["predicted_seconds"]) for e in events("recovery")]
        changes += len(events("resize"))
    seconds = sorted(t for t, _ in times)
    print(f"{rounds} runs, {len(times)} recoveries, {changes} changes of the number of ranks, all with weights {expected}")
    if len(seconds) > 1:
        off = statistics.median(abs(p / t - 1) for t, p in times)
        print(f"from a kill to the end of the next step: median {statistics.median(seconds):.2f} s, "
              f"95% {seconds[int(0.95 * len(seconds))]:.2f} s, longest {seconds[-1]:.2f} s; "
              f"predictions: median error {100 * off:.0f}%")


def write(run):
    with open("run.yaml", "w", encoding="utf-8") as f:
        f.write(run)
    with open("text", "w", encoding="utf-8") as f:
        f.write("the quick brown fox jumps over the lazy dog\n" * 400)


if __name__ == "__main__":
    if sys.argv[1] == "moments":
        moments()
    elif sys.argv[1] == "layouts":
        each(LAYOUTS)
    else:
        soak(int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else int(time.time()))
