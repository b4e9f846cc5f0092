#!/usr/bin/env python3
"""What a slow disk costs a training step: GPT-2 124M on a blend of two indexed data sets (PREFIX.bin and PREFIX.idx of
random tokens), from a disk limited to 20 MB/s and from memory, in turn.

    bench/slow_disk.py [--rounds N] [--steps N] [--batch N] [--context N] [--rate MB/S] [--megabytes N] [--json]

The disk is an ext4 file system in a file on a loop device, mounted anew before each run so that nothing of it is in the
page cache, with the limit of a control group (blkio of version 1, or io of version 2). Memory is /dev/shm. The first
step of a run, which waits for its batch, does not count: `step` is the ratio of the medians of the other steps of a
round, then the median of the rounds, `wait` the largest data_wait_ms of these steps. Needs root, ./dev build."""

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile

import needs
from needs import PENSTOCK

VOCABULARY = 50257
WANTED = 1.005


def shell(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def write_set(prefix, megabytes, seed):
    """Documents of 1,000 tokens of 2 bytes, as Megatron writes them."""
    length = 1000
    n = megabytes * 1000 // 2
    words = random.Random(seed)
    with open(prefix + ".bin", "wb") as out:
        for _ in range(n):
            out.write(b"".join(words.randrange(VOCABULARY).to_bytes(2, "little") for _ in range(8)) * (length // 8))
    with open(prefix + ".idx", "wb") as out:
        out.write(b"MMIDIDX\0\0" + (1).to_bytes(8, "little") + b"\x08" + n.to_bytes(8, "little"))
        out.write((n + 1).to_bytes(8, "little") + length.to_bytes(4, "little") * n)
        out.write(b"".join((i * 2 * length).to_bytes(8, "little") for i in range(n)))
        out.write(b"".join(i.to_bytes(8, "little") for i in range(n + 1)))


@contextlib.contextmanager
def disk(folder, megabytes):
    """A file system on a loop device: its mount point and `MAJOR:MINOR`."""
    image, point = os.path.join(folder, "image"), os.path.join(folder, "disk")
    os.mkdir(point)
    with open(image, "wb") as out:
        out.truncate((2 * megabytes + 100) * 1_000_000)
    shell("mkfs.ext4", "-q", "-F", image)
    device = shell("losetup", "--find", "--show", "--direct-io=on", image)
    try:
        number = os.stat(device).st_rdev
        shell("mount", device, point)
        yield device, point, f"{os.major(number)}:{os.minor(number)}"
    finally:
        subprocess.run(["umount", point], check=False, capture_output=True)
        shell("losetup", "--detach", device)


@contextlib.contextmanager
def limited(number, rate):
    """A control group whose processes read at most `rate` bytes/s from the device."""
    first = "/sys/fs/cgroup/blkio"
    group = os.path.join(first if os.path.isdir(first) else "/sys/fs/cgroup", f"penstock-{os.getpid()}")
    os.mkdir(group)
    try:
        version_1 = os.path.join(group, "blkio.throttle.read_bps_device")
        name, text = (version_1, f"{number} {rate}") if os.path.exists(version_1) else \
                     (os.path.join(group, "io.max"), f"{number} rbps={rate}")
        with open(name, "w", encoding="ascii") as out:
            out.write(text)
        yield os.path.join(group, "cgroup.procs")
    finally:
        os.rmdir(group)


def run(data, args, folder, procs=None):
    """The steps of a run on the data sets in `data`, without the first."""
    runs = tempfile.mkdtemp(dir=folder)
    command = [PENSTOCK, "train", args.file, "-q", "-n", "1", "--runs", runs, "name=run",
               f"data.paths=[{data}/a, {data}/b]"]

    def enter():
        with open(procs, "w", encoding="ascii") as out:
            out.write(str(os.getpid()))
    subprocess.run(command, check=True, preexec_fn=enter if procs else None)
    with open(os.path.join(runs, "run", "metrics.jsonl"), encoding="utf-8") as lines:
        steps = [json.loads(line) for line in lines]
    return [step for step in steps if "event" not in step][1:]


def measure(args, folder, ram):
    rows = []
    with disk(folder, args.megabytes) as (device, point, number):
        for name, seed in (("a", 1), ("b", 2)):
            write_set(os.path.join(ram, name), args.megabytes, seed)
            for ending in (".bin", ".idx"):
                shell("cp", os.path.join(ram, name + ending), point)
        with limited(number, int(args.rate * 1e6)) as procs:
            for _ in range(args.rounds):
                shell("umount", point)
                shell("mount", "-o", "ro", device, point)
                slow, fast = run(point, args, folder, procs), run(ram, args, folder)
                medians = [statistics.median(step["step_ms"] for step in steps) for steps in (slow, fast)]
                rows.append({"disk_ms": medians[0], "memory_ms": medians[1], "step": medians[0] / medians[1],
                             "wait_ms": max(step["data_wait_ms"] for step in slow),
                             "memory_wait_ms": max(step["data_wait_ms"] for step in fast)})
                if not args.json:
                    print(f"disk {medians[0]:9.1f} ms, memory {medians[1]:9.1f} ms, ratio {rows[-1]['step']:.4f}, "
                          f"wait {rows[-1]['wait_ms']:.3f} ms, {rows[-1]['memory_wait_ms']:.3f} ms", flush=True)
    return rows


def stop(*_):
    """Ends the run under way and releases the device, once, even if the signal comes again."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--megabytes", type=int, default=200, help="of each of the two data sets")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    needs.check(("mkfs.ext4", "e2fsprogs"), ("losetup", "mount"))
    if os.geteuid():
        sys.exit("slow_disk.py: needs root, for a loop device and a control group")
    signal.signal(signal.SIGTERM, stop)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir="/dev/shm") as ram:
        args.file = os.path.join(folder, "run.yaml")
        with open(args.file, "w", encoding="ascii") as out:
            out.write(f"model: {{kind: gpt, preset: gpt2, context: {args.context}}}\n"
                      "data: {kind: tokens, paths: [none], blend: [0.7, 0.3]}\n"
                      f"train: {{steps: {args.steps}, batch: {args.batch}, micro_batch: {min(args.batch, 4)}}}\n"
                      "eval: {tokens: 1}\ncheckpoint: {every: 0}\nlog: {level: error}\n")
        rows = measure(args, folder, ram)
    step = statistics.median(row["step"] for row in rows)
    if args.json:
        print(json.dumps({"rounds": rows, "step": step, "wanted": WANTED}))
    else:
        print(f"step {step:.4f} of the same from memory, wanted {WANTED}")


if __name__ == "__main__":
    main()
