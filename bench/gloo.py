"""Starts the processes of a PyTorch peer: this program again, once per rank, over gloo on the loopback interface."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time

import forms

MARK = "PENSTOCK_PEER"


def own_rank():
    """The rank that this process is; None in the one that starts them."""
    return int(os.environ["RANK"]) if os.environ.get(MARK) == "1" else None


def finish(dist):
    """Ends a rank that has printed its result. Not by the interpreter's own end: threads of PyTorch's that still run
    then would now and again abort it."""
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


def place(netns, address):
    """Words before a rank's command, and variables, that put it into a network namespace with an interface v0."""
    if not netns:
        return [], {}
    return ["ip", "netns", "exec", netns], {"MASTER_ADDR": address, "GLOO_SOCKET_IFNAME": "v0"}


def start(ranks, speaker, what, environment=None, hosts=None):
    """Runs the ranks, of one thread each, to their end; what `speaker` printed last, from JSON. One that fails ends
    all. hosts: pairs of network namespaces and addresses, one per rank (hosts.py), in place of the loopback
    interface."""
    if importlib.util.find_spec("torch") is None:
        raise SystemExit(f"{os.path.basename(sys.argv[0])}: {forms.MISSING}")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    hosts = hosts or [(None, None)] * ranks
    child = []
    for rank in range(ranks):
        before, where = place(hosts[rank][0], hosts[0][1])
        variables = {"RANK": str(rank), MARK: "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                     "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", **where}
        child.append(subprocess.Popen(before + [sys.executable] + sys.argv, stdout=subprocess.PIPE, text=True,
                                      env={**os.environ, **(environment or {}), **variables}))
    while any(c.poll() is None for c in child) and not any(c.returncode for c in child):
        time.sleep(0.1)  # what they print fits into a pipe
    failed = any(c.returncode for c in child)
    for c in child:
        if failed and c.poll() is None:
            c.kill()
    out = [c.communicate()[0] for c in child]
    if failed:
        raise SystemExit(f"{what} failed")
    return json.loads(out[speaker].splitlines()[-1])
