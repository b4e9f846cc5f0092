#!/usr/bin/env python3
"""Runs that get signals: test_signals.sh sends each of them once at a known moment, test_signals_soak.sh any of them to
anybody at any time. Whatever happens, the exit status says what it was, and the run goes on to the same weights.

    signals.py each | soak ROUNDS [SEED]    (PENSTOCK: the program; the current folder is written to)
    signals.py start RANKS COMMAND...       stands in for torchrun --no-python, which need not be here
"""
import glob
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time

PROGRAM = os.environ["PENSTOCK"]
STEPS = 150
PATIENCE = 90  # seconds; a run takes one or two
RUN = f"""name: run
model: {{kind: gpt, layers: 4, heads: 2, channels: 32, context: 32}}
data: {{kind: text, paths: [text], validation: 0}}
train: {{steps: {STEPS}, batch: 8, micro_batch: 2, lr: 1.0e-3, warmup: 0}}
parallel: {{threads: 1}}
checkpoint: {{every: 20, keep: 2}}
"""
RUNS = {"one": 1, "local": 3, "mpirun": 2, "stand-in": 2, "hosts": 2}
HARMLESS = (signal.SIGUSR1, signal.SIGWINCH, signal.SIGTSTP)
ENDS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
SIGNALS = ENDS + HARMLESS


# --- a stand-in for torchrun -------------------------------------------------------------------------------------

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(n, command):
    """As torchrun's agent does: ranks in groups of their own; signals are passed on, also to ranks that start later;
    when one fails, the others are asked to end."""
    ranks, asked = [], []
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def pass_on(number, _frame):
        asked.append(number)
        for p in ranks:
            if p.poll() is None:
                p.send_signal(number)

    for s in ENDS:
        signal.signal(s, pass_on)
    secret, port = os.urandom(16).hex(), str(free_port())
    for r in range(n):
        env = dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE=str(n), LOCAL_WORLD_SIZE=str(n),
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=port, PENSTOCK_SECRET=secret)
        ranks.append(subprocess.Popen(command, env=env, process_group=0))
        for number in asked:
            ranks[-1].send_signal(number)
    bad, end = 0, None
    while any(p.poll() is None for p in ranks):
        bad = bad or next((p.returncode for p in ranks if p.returncode), 0)
        if bad and end is None:
            pass_on(signal.SIGTERM, None)
            end = time.monotonic() + 30
        if end is not None and time.monotonic() > end:
            pass_on(signal.SIGKILL, None)
        time.sleep(0.01)
    bad = bad or next((p.returncode for p in ranks if p.returncode), 0)
    return bad if bad >= 0 else 128 - bad


# --- jobs --------------------------------------------------------------------------------------------------------

def command_of(kind, words):
    train = [PROGRAM, "train"] + words + ["-q"]
    n = str(RUNS[kind])
    if kind == "mpirun":
        return ["mpirun", "-n", n, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"] + train
    if kind == "stand-in":
        return [sys.executable, os.path.abspath(__file__), "start", n] + train
    return train + (["--hostfile", "hosts"] if kind == "hosts" else ["-n", n])


def begin(kind, words):
    """In a group of its own, which is not the session's only one: there Ctrl-Z would do nothing."""
    log = open("log", "w")
    return subprocess.Popen(command_of(kind, words), stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                            process_group=0)


def ranks_of(pid):
    """The job's processes that compute: those of the program that have no children of the program."""
    found = []
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            children = [int(c) for c in f.read().split()]
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            mine = f.read().split(b"\0")[0] == PROGRAM.encode()
    except OSError:
        return []
    for c in children:
        found += ranks_of(c)
    return found or ([pid] if mine else [])


def lines():
    try:
        with open("runs/run/metrics.jsonl", encoding="utf-8") as f:
            text = f.read()  # at once: the rest of a line that is being written would look like a line
    except OSError:
        return []
    return [json.loads(line) for line in text.split("\n")[:-1]]


def steps():
    return sum("loss" in line and "step" in line and "event" not in line for line in lines())


def checkpoints():
    return sorted(int(p[-8:]) for p in glob.glob("runs/run/checkpoints/step-" + "[0-9]" * 8))


def status_of(p):
    code = p.wait(PATIENCE)
    return code if code >= 0 else 128 - code


def send(p, number, target, pid):
    """0: nobody is there any more."""
    try:
        if target == "group":
            os.killpg(p.pid, number)
        else:
            os.kill(pid, number)
        return 1
    except ProcessLookupError:
        return 0


def complete(words):
    """Undisturbed to the end; its weights."""
    p = begin("one", words)
    status = status_of(p)
    last = lines()[-1]
    if status or last.get("why") != "done":
        fail(f"status {status} without a signal")
    return last["weights_xxh64"]


def fail(why):
    with open("log", encoding="utf-8", errors="replace") as f:
        sys.exit(f"FAILED: {why}\n{f.read()[-4000:]}")


# --- what must hold ----------------------------------------------------------------------------------------------

def judge(kind, number, target, status, seen):
    """Why the status is wrong; None: it is right. seen: the steps that were made before the signal."""
    last = lines()[-1:] or [{}]
    why = last[0].get("why")
    saved = why == "interrupted" and checkpoints()[-1:] == [last[0]["steps"]]
    with open("log", encoding="utf-8", errors="replace") as f:
        said = f.read()
    if status in (128 + signal.SIGSEGV, 128 + signal.SIGBUS, 128 + signal.SIGABRT, 128 + signal.SIGILL):
        return "a crash"
    if "signal 11" in said or "signal 6" in said or "Segmentation" in said or "Sanitizer" in said:
        return "a crash"
    if why == "done":
        # It came too late; who is signalled on the way out may say so. Before its own start is over, mpirun loses some.
        lost = number in ENDS and seen < STEPS // 2 and not status and (seen or kind != "mpirun")
        return "the signal is lost" if lost else None
    if number in HARMLESS:
        return None if not steps() and status else "a harmless signal has ended it"
    if saved:
        allowed = {signal.SIGINT: (0,), signal.SIGTERM: (143,), signal.SIGHUP: (129,)}.get(number, ())
        if kind == "stand-in" and number == signal.SIGINT:
            allowed = (0, 143)  # when one rank has failed in its start, it asks the others to end
        if kind == "mpirun" and target != "rank":
            allowed = tuple(range(1, 256))  # it turns whatever it gets into SIGTERM
        return None if status in allowed else "saved"
    if status == 0:
        return "false success"
    # Of a host file's, it may have been a host's launcher.
    certain = kind in ("one", "local") or (kind == "hosts" and target != "rank")
    if not steps() and certain and status != 128 + number:
        return "not 128 + the signal"
    leads = target != "rank" or kind == "one"  # else another one may be the first to say that a rank is gone
    if number == signal.SIGQUIT and steps() and kind != "mpirun" and leads and status != 131:
        return "SIGQUIT: not 131"
    return None


def disturb(kind, number, target, delay):
    """One run and one signal. Returns its exit status, and the steps before the signal."""
    p = begin(kind, ["run.yaml"])
    try:
        delay(p)
        ranks = ranks_of(p.pid)
        pid = random.choice(ranks) if target == "rank" and ranks else p.pid
        seen = steps()
        if not send(p, number, target, pid):
            seen = STEPS
        if number == signal.SIGTSTP:
            time.sleep(random.uniform(0.05, 0.6))
            send(p, signal.SIGCONT, target, pid)
        return status_of(p), seen
    except subprocess.TimeoutExpired:
        fail(f"{kind}: signal {number} to {target}: it hangs")
    finally:
        if p.poll() is None:
            for pid in ranks_of(p.pid) + [p.pid]:
                os.kill(pid, signal.SIGKILL)
            p.wait()


def one_round(kind, number, target, delay, weights):
    shutil.rmtree("runs", ignore_errors=True)
    status, seen = disturb(kind, number, target, delay)
    wrong = judge(kind, number, target, status, seen)
    what = f"{kind}, {signal.Signals(number).name} to {target}, status {status} after {steps()} steps"
    if wrong:
        fail(f"{what}: {wrong}")
    last = lines()[-1:] or [{}]
    found = last[0].get("weights_xxh64")
    if last[0].get("why") != "done":
        if not checkpoints():
            shutil.rmtree("runs", ignore_errors=True)
        found = complete(["--resume", "runs/run", "parallel.pipeline=0"] if checkpoints() else ["run.yaml"])
    if found != weights:
        fail(f"{what}: other weights")
    return what


def prepare():
    with open("text", "w", encoding="ascii") as f:
        f.write("".join(f"{i} bottles of beer on the wall, and if one of them should fall\n" for i in range(200)))
    with open("run.yaml", "w", encoding="ascii") as f:
        f.write(RUN)
    with open("hosts", "w", encoding="ascii") as f:
        f.write("localhost slots=2\n")
    os.environ.pop("PENSTOCK_SSH", None)
    return complete(["run.yaml"])


def kinds():
    return [k for k in RUNS if k != "mpirun" or shutil.which("mpirun")]


def soak(rounds, seed):
    random.seed(seed)
    print(f"seed {seed}", flush=True)
    weights = prepare()
    began = time.monotonic()
    for i in range(rounds):
        kind, number = random.choice(kinds()), random.choice(SIGNALS)
        target = random.choice(("launcher", "group", "rank"))
        # Half of them amid training, some while it begins and some while it ends.
        after, more = random.choice(((0, 0.3), (1, 0.3), (random.randint(1, STEPS), 0.01),
                                     (random.randint(1, STEPS), 0.01), (STEPS, 0.1)))
        pause = random.uniform(0, more)

        def delay(p, n=after, seconds=pause):
            wait_for_steps(p, n)
            time.sleep(seconds)

        what = one_round(kind, number, target, delay, weights)
        print(f"{i + 1}: {what}, {pause * 1e3:.0f} ms behind step {after}", flush=True)
    print(f"{rounds} signals, each run went on to the same weights; {time.monotonic() - began:.0f} s")


def wait_for_steps(p, n=5):
    end = time.monotonic() + PATIENCE
    while steps() < n and p.poll() is None and time.monotonic() < end:
        time.sleep(0.002)


def each():
    """Amid training, where the status is certain; of one process and of local ranks there is more in test_stop.c."""
    weights = prepare()
    some = [("local", signal.SIGTERM, "rank"), ("stand-in", signal.SIGTERM, "rank"),
            ("stand-in", signal.SIGHUP, "launcher"), ("hosts", signal.SIGTERM, "launcher"),
            ("hosts", signal.SIGQUIT, "launcher"), ("mpirun", signal.SIGHUP, "rank"),
            ("mpirun", signal.SIGTERM, "launcher")]
    for kind, number, target in some:
        if kind in kinds():
            print(one_round(kind, number, target, wait_for_steps, weights), flush=True)


if __name__ == "__main__":
    # A shell's background ignores them, and so would all that is started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    if sys.argv[1] == "start":
        sys.exit(start(int(sys.argv[2]), sys.argv[3:]))
    elif sys.argv[1] == "each":
        each()
    else:
        soak(int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else int(time.time()))
