"""Injects bugs, each alone at a random place, and checks that `penstock verify` finds each and names its operator,
parameter, number or message. PENSTOCK, and PENSTOCK_MODULE with tests/verify/faulty_module.c, are in the environment;
PST_SEED chooses the places, PST_SOAK how often each bug is injected (once)."""
import glob
import os
import random
import re
import subprocess
import sys

MODEL = ["model.layers=2", "model.heads=4", "model.channels=32", "model.context=16", "train.micro_batch=1",
         "train.clip=0.1"]
REPLICAS = [(2, ["parallel.data=2"]), (4, ["parallel.data=2", "parallel.pipeline=2"]), (4, ["parallel.data=4"]),
            (2, ["parallel.data=2", "parallel.zero=0"])]
TENSOR = [(2, ["parallel.tensor=2"]), (4, ["parallel.tensor=2", "parallel.data=2"]),
          (4, ["parallel.tensor=2", "parallel.pipeline=2"])]
STAGES = [(2, []), (4, []), (2, ["parallel.schedule=zb-h1"])]
ANY = REPLICAS + TENSOR + STAGES
DROPOUT = ["model.dropout=0.2"]

# bug: layouts, further keys, what the report has to name: None for the operator that the module names
BUGS = {
    "replica-missing": (REPLICAS, [], "after REDUCE: gradient of"),
    "replica-twice": (REPLICAS, [], "after REDUCE: gradient of"),
    "replica-scale": (REPLICAS, [], "after REDUCE: gradient of"),
    "tensor-missing": (TENSOR, [], None),
    "tensor-twice": (TENSOR, [], None),
    "tensor-scale": (TENSOR, [], None),
    "bias-everywhere": (TENSOR, [], None),
    "stale": (ANY, [], r"after STEP: \S+ "),
    "clip": (ANY, [], r"after STEP: \S+ "),
    "state-swapped": (ANY, [], r"resumed from a checkpoint.*after STEP: \S+ "),
    "lr-resumed": (ANY, [], r"resumed from a checkpoint.*after STEP: \S+ "),
    "decay-norm": (ANY, [], r"after STEP: \S*ln_\S+ "),
    "norm-part": (ANY, [], "NORM: gradient norm"),
    "tied-once": (REPLICAS[:1], [], "gradient of wte.weight"),
    "tied-twice": (REPLICAS[:1], [], "gradient of wte.weight"),
    "micro-twice": (REPLICAS, [], None),
    "micro-left-out": (REPLICAS, [], None),
    "target-shift": (REPLICAS + STAGES[:1] + TENSOR, [], "F of loss"),
    "loss-count": (REPLICAS + STAGES[:1], [], None),
    "dropout-seed": (ANY, DROPOUT, None),
    "recompute-random": (ANY, DROPOUT + ["parallel.recompute=full"], None),
    "slot-early": (STAGES[:1], ["parallel.schedule=gpipe"], None),
    "norm-precision": (ANY, [], None),
    "message": (STAGES + REPLICAS[1:2], [],
                r"received in a message with different values|on rank \d+ \(as configured\)"),
}


def verify(ranks, keys, environment):
    """Exit status, output, and what the ranks' module said."""
    folder = "kept"
    subprocess.run(["rm", "-rf", folder], check=True)
    command = [os.environ["PENSTOCK"], "verify", "run.yaml", "-n", str(ranks), "--keep", folder, *keys]
    done = subprocess.run(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, check=False)
    said = set()
    for log in glob.glob(f"{folder}/*.log"):
        with open(log, encoding="utf-8") as lines:
            said |= set(re.findall(r"^faulty: \S+ at (\S+)$|(repeat message \d+)", lines.read(), re.M))
    return done.returncode, done.stdout + done.stderr, {a or b for a, b in said}


def inject(bug, r):
    """One injection: (struck, found, named, description)."""
    layouts, more, expected = BUGS[bug]
    ranks, keys = r.choice(layouts)
    rank, place = r.randrange(1, ranks), r.randrange(60)
    environment = {"FAULTY": f"{bug}:{rank}:{place}"}
    keys = MODEL + keys + more + ["train.batch=8", "parallel.device=faulty", f"train.seed={r.randrange(1000)}"]
    if bug == "message":
        environment = {"PENSTOCK_FAULT": f"repeat:rank={r.randrange(ranks)},message={r.randrange(2, 60)}"}
    status, out, said = verify(ranks, keys, environment)
    text = re.sub(r"\n {8}", " ", out)
    failed = [line for line in text.split("\n") if line.startswith("failed")]
    if expected is None:
        expected = "|".join(rf"\b{re.escape(name)}\b" for name in said) or "$^"
    named = any(re.search(expected, line) for line in failed)
    about = f"{bug} with {environment}, {ranks} ranks, {' '.join(keys)}; struck at {sorted(said)}"
    return bool(said), status == 5 and bool(failed), named, about + "\n" + out


def main():
    seed, rounds = int(os.environ.get("PST_SEED", "1")), int(os.environ.get("PST_SOAK", "1"))
    r = random.Random(seed)
    total = found = named = 0
    bad = []
    print(f"seed {seed}")
    for _ in range(rounds):
        for bug in BUGS:
            for _ in range(20):  # places at which this rank has nothing of the kind do not strike
                struck, is_found, is_named, about = inject(bug, r)
                if struck:
                    break
            else:
                bad.append(f"{bug} struck nowhere: {about}")
                continue
            total, found, named = total + 1, found + is_found, named + is_named
            if not is_found or not is_named:
                bad.append(("not found: " if not is_found else "not named: ") + about)
    print(f"{total} bugs, {found} found, {named} named")
    for text in bad:
        print(text)
    struck_all = total == rounds * len(BUGS)
    return 0 if struck_all and found == total and named >= 0.9 * total else 1


if __name__ == "__main__":
    sys.exit(main())
