#!/usr/bin/env python3
"""Trains a linear model with gradients of its own over a key-value store (include/penstock/kv.h), by ctypes.

    mpirun -n 4 python3 kv.py [SERVERS]

Needs numpy. It finds libpenstock.so.0 where the dynamic linker does, or in the file that PENSTOCK_LIBRARY names."""
import ctypes
import os
import sys

import numpy

INPUTS, BATCH, STEPS = 64, 16, 200


class Options(ctypes.Structure):
    """pst_kv_options."""

    _fields_ = [("size", ctypes.c_size_t), ("servers", ctypes.c_int64), ("wait_s", ctypes.c_int64),
                ("threads", ctypes.c_int64)]


class Optimizer(ctypes.Structure):
    """pst_kv_optimizer."""

    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("lr", ctypes.c_double),
                ("weight_decay", ctypes.c_double), ("momentum", ctypes.c_double), ("nesterov", ctypes.c_int),
                ("beta1", ctypes.c_double), ("beta2", ctypes.c_double), ("eps", ctypes.c_double),
                ("rescale", ctypes.c_double)]


library = ctypes.CDLL(os.environ.get("PENSTOCK_LIBRARY", "libpenstock.so.0"))
library.pst_error.restype = ctypes.c_char_p


def call(name, *arguments):
    """A function that returns a pst_status."""
    if getattr(library, name)(*arguments):
        raise SystemExit(f"{name}: {library.pst_error().decode()}")


def pointer(array):
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_float))


kv, options = ctypes.c_void_p(), Options(ctypes.sizeof(Options), int(sys.argv[1]) if len(sys.argv) > 1 else 0)
call("pst_kv_open", b"dist_sync", ctypes.byref(options), ctypes.byref(kv))
if not kv:
    sys.exit()  # this process has served
rank, workers = library.pst_kv_rank(kv), library.pst_kv_workers(kv)
optimizer = Optimizer()
library.pst_kv_optimizer_init(ctypes.byref(optimizer), b"sgd")
optimizer.lr, optimizer.momentum, optimizer.rescale = 0.1, 0.9, 1 / workers  # the mean of the workers' gradients
call("pst_kv_set_optimizer", kv, ctypes.byref(optimizer))
wanted = numpy.arange(1, INPUTS + 1, dtype=numpy.float32) / INPUTS
w, random = numpy.zeros(INPUTS, numpy.float32), numpy.random.default_rng(rank)  # each worker has samples of its own
call("pst_kv_init", kv, b"w", pointer(w), ctypes.c_uint64(1), ctypes.c_uint64(INPUTS))
for step in range(1, STEPS + 1):
    x = random.random((BATCH, INPUTS), numpy.float32) - 0.5
    error = x @ (w - wanted)
    gradient = (2 / BATCH * error @ x).astype(numpy.float32)
    call("pst_kv_pushpull", kv, b"w", pointer(gradient), pointer(w), 0)
    call("pst_kv_wait", kv, b"w")  # w is the new value now
    if rank == 0 and step % 50 == 0:
        print(f"step {step}  loss {error @ error / BATCH:.6f}")
print(f"worker {rank} of {workers}: w[0] {w[0]:.9g}, w[{INPUTS - 1}] {w[-1]:.9g}")
call("pst_kv_close", kv)
