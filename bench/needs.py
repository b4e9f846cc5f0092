"""What the measuring programs need of this machine, said in one line where it is not here: `check` comes after their
arguments were read, so that --help works everywhere."""

import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PENSTOCK = os.path.abspath(os.environ.get("PENSTOCK", os.path.join(HERE, "..", "build", "release", "penstock")))


LEFT_OUT = ": left out: "


def leave_out(peer, why):
    """A peer that is not here, on stderr: bench/table.py reads it there."""
    print(f"{peer}{LEFT_OUT}{why}", file=sys.stderr)


def check(*programs, root=False):
    """The program itself; other programs, as (name, Debian package); the right to make network namespaces."""
    missing = []
    if not os.access(PENSTOCK, os.X_OK):
        missing.append(f"{PENSTOCK}: ./dev build, or PENSTOCK=PROGRAM")
    missing += [f"{name} (Debian package {package})" for name, package in programs if not shutil.which(name)]
    if root and os.geteuid():
        missing.append("root, for network namespaces")
    if missing:
        raise SystemExit(f"{os.path.basename(sys.argv[0])}: needs " + "; ".join(missing))
