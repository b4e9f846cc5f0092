#!/usr/bin/env python3
"""Penstock from Python: configuration, plan, training steps, and weights as numpy arrays, by ctypes.

One file over the C library (include/penstock/); copy it into a project. It finds libpenstock.so.0 where the dynamic
linker does, or in the file that PENSTOCK_LIBRARY names. Started as a program it trains a small model over two ranks.

    config = penstock.Config("mine", ["model.kind=gpt", "model.preset=nano", "data.kind=custom", "batch=8"])
    graph = penstock.Graph(config)
    plan = penstock.Plan(config, graph, ranks=2)
    with penstock.Session(config, graph, plan) as session:
        result = session.step(tokens, targets)     # int32 [batch, context]
        weights = session.read("wte.weight")       # float32 [vocabulary, channels]

A failed call raises penstock.Error with the library's message. The rules for processes, threads and failures are those
of include/penstock/train.h."""
import ctypes
import os

import numpy

MAX_DIM = 4


class Error(Exception):
    """status: the number of the pst_status (include/penstock/status.h)."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class StepResult(ctypes.Structure):
    """pst_step_result of include/penstock/train.h."""

    _fields_ = [("size", ctypes.c_size_t), ("step", ctypes.c_uint64), ("loss", ctypes.c_double),
                ("lr", ctypes.c_double), ("grad_norm", ctypes.c_double), ("step_s", ctypes.c_double),
                ("predicted_step_s", ctypes.c_double), ("bubble", ctypes.c_double),
                ("predicted_bubble", ctypes.c_double), ("skipped", ctypes.c_uint64)]


def _open():
    library = ctypes.CDLL(os.environ.get("PENSTOCK_LIBRARY", "libpenstock.so.0"))
    handle, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32
    texts, out = ctypes.POINTER(text), ctypes.POINTER(handle)
    shape = [number, ctypes.POINTER(text), ctypes.POINTER(number), ctypes.POINTER(ctypes.c_uint64)]
    arrays = ctypes.POINTER(ctypes.c_void_p)
    for name, result, arguments in [
        ("pst_error", text, []),
        ("pst_config_open", None, [text, texts, ctypes.c_size_t, out]),
        ("pst_config_load", None, [text, texts, ctypes.c_size_t, out]),
        ("pst_graph_build", None, [handle, out]),
        ("pst_graph_weights", ctypes.c_uint64, [handle]),
        ("pst_graph_param_at", ctypes.c_int, [handle] + shape),
        ("pst_graph_data_at", ctypes.c_int, [handle] + shape),
        ("pst_plan_solve", None, [handle, handle, number, out]),
        ("pst_plan_load", None, [text, out]),
        ("pst_plan_ranks", number, [handle]),
        ("pst_plan_micro_batches", number, [handle]),
        ("pst_plan_schedule", text, [handle]),
        ("pst_plan_step_s", ctypes.c_double, [handle]),
        ("pst_plan_bubble", ctypes.c_double, [handle]),
        ("pst_plan_peak_bytes", ctypes.c_uint64, [handle, number]),
        ("pst_session_open", None, [handle, handle, handle, out]),
        ("pst_session_step", None, [handle, arrays, number, ctypes.POINTER(StepResult)]),
        ("pst_session_evaluate", None, [handle, arrays, number, ctypes.POINTER(ctypes.c_double)]),
        ("pst_session_save", None, [handle, text]),
        ("pst_session_load", None, [handle, text]),
        ("pst_session_read", None, [handle, text, ctypes.c_void_p, ctypes.c_uint64]),
        ("pst_session_hash", None, [handle, ctypes.POINTER(ctypes.c_uint64)]),
        ("pst_session_steps", ctypes.c_uint64, [handle]),
        ("pst_session_batch", ctypes.c_uint64, [handle]),
    ]:
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = result or ctypes.c_int
        if result is None:  # a pst_status
            function.errcheck = _check
    for name in "config", "graph", "plan", "session":
        function = getattr(library, f"pst_{name}_close")
        function.argtypes, function.restype = [handle], None
    return library


def _check(status, function, arguments):
    if status:
        raise Error(status, _library.pst_error().decode())
    return status


_library = _open()


class _Handle:
    """An object of the library, which close() or the end of a `with` frees."""

    _close = None  # the name of the function
    _handle = None

    def __init__(self, opening, *arguments):
        handle = ctypes.c_void_p()
        opening(*arguments, ctypes.byref(handle))
        self._handle = handle

    def close(self):
        if self._handle:
            getattr(_library, self._close)(self._handle)
        self._handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()

    def _pointer(self):
        if not self._handle:
            raise ValueError(f"the {type(self).__name__} is closed")
        return self._handle


def _text(value):
    """Bytes for the library, where a text ends at its first NUL."""
    text = os.fsencode(value)
    if b"\0" in text:
        raise ValueError(f"{value!r} contains a NUL")
    return text


def _texts(overrides):
    return (ctypes.c_char_p * len(overrides))(*[_text(o) for o in overrides]), len(overrides)


class Config(_Handle):
    """The settings of a run: keys and values as in a run file (`penstock train --help`)."""

    _close = "pst_config_close"

    def __init__(self, name, overrides=()):
        """Without a file: the name of the run, and "section.key=value" for every other key that is not a default."""
        super().__init__(_library.pst_config_open, _text(name), *_texts(overrides))

    @classmethod
    def load(cls, path, overrides=()):
        """From a run file."""
        config = cls.__new__(cls)
        _Handle.__init__(config, _library.pst_config_load, _text(path), *_texts(overrides))
        return config


class Graph(_Handle):
    """The graph of the configured built-in model, for one micro-batch."""

    _close = "pst_graph_close"

    def __init__(self, config):
        super().__init__(_library.pst_graph_build, config._pointer())

    def _shapes(self, function):
        found, name, n = {}, ctypes.c_char_p(), ctypes.c_uint32()
        dim = (ctypes.c_uint64 * MAX_DIM)()
        while function(self._pointer(), len(found), ctypes.byref(name), ctypes.byref(n), dim):
            found[name.value.decode()] = tuple(dim[:n.value])
        return found

    @property
    def parameters(self):
        """The shape of each parameter, by name."""
        return self._shapes(_library.pst_graph_param_at)

    @property
    def data(self):
        """The shape of each data tensor of a micro-batch, by name, in the order of the arrays of a step."""
        return self._shapes(_library.pst_graph_data_at)

    @property
    def weights(self):
        """The number of trainable elements."""
        return _library.pst_graph_weights(self._pointer())


class Plan(_Handle):
    """Which part of the graph each rank computes, and what is predicted for it."""

    _close = "pst_plan_close"

    def __init__(self, config, graph, ranks=0):
        super().__init__(_library.pst_plan_solve, config._pointer(), graph._pointer(), ranks)

    @classmethod
    def load(cls, path):
        """From a plan file."""
        plan = cls.__new__(cls)
        _Handle.__init__(plan, _library.pst_plan_load, _text(path))
        return plan

    @property
    def stages(self):
        return _library.pst_plan_ranks(self._pointer())

    @property
    def micro_batches(self):
        """Per step, of all replicas."""
        return _library.pst_plan_micro_batches(self._pointer())

    @property
    def schedule(self):
        return _library.pst_plan_schedule(self._pointer()).decode()

    @property
    def step_s(self):
        """Predicted seconds per step."""
        return _library.pst_plan_step_s(self._pointer())

    @property
    def bubble(self):
        """Predicted share of time, 0 to 1."""
        return _library.pst_plan_bubble(self._pointer())

    def peak_bytes(self, stage):
        """Predicted peak memory of a stage."""
        return _library.pst_plan_peak_bytes(self._pointer(), stage)


class Session(_Handle):
    """Trains the graph as the plan says. In one process it runs all ranks; with a launcher, one rank per process, and
    then all processes make the same calls."""

    _close = "pst_session_close"

    def __init__(self, config, graph, plan):
        self._parameters = graph.parameters
        micro_batch = next(iter(graph.data.values()))[0]
        self._whole = micro_batch * plan.micro_batches
        self._data = {name: shape[1:] for name, shape in graph.data.items()}
        super().__init__(_library.pst_session_open, config._pointer(), graph._pointer(),
                         plan._pointer())

    def _batch(self, arrays, samples):
        """Pointers to int32 arrays of the right shapes, and the arrays, which must outlive the call."""
        if len(arrays) != len(self._data):
            raise ValueError(f"{len(arrays)} arrays, but the model reads {', '.join(self._data)}")
        kept = []
        for array, (name, shape) in zip(arrays, self._data.items()):
            array, shape = numpy.asarray(array), (samples,) + shape
            if array.dtype.kind not in "iu" or array.shape != shape:
                raise ValueError(f"{name} is {array.dtype} {array.shape}; expected integers {shape}")
            if array.size and (int(array.min()) < -2**31 or int(array.max()) >= 2**31):
                raise ValueError(f"{name} has values from {array.min()} to {array.max()}; expected int32")
            kept.append(numpy.ascontiguousarray(array, dtype=numpy.int32))
        return (ctypes.c_void_p * len(kept))(*[a.ctypes.data for a in kept]), kept

    def step(self, *arrays):
        """One optimizer step on a batch: the arrays of Graph.data, of `batch` samples each. Returns a StepResult."""
        result = StepResult(size=ctypes.sizeof(StepResult))
        pointers, kept = self._batch(arrays, self.batch)
        _library.pst_session_step(self._pointer(), pointers, len(kept), ctypes.byref(result))
        return result

    def evaluate(self, *arrays):
        """The mean loss of a batch of train.batch samples in nats."""
        loss = ctypes.c_double()
        pointers, kept = self._batch(arrays, self._whole)
        _library.pst_session_evaluate(self._pointer(), pointers, len(kept), ctypes.byref(loss))
        return loss.value

    def read(self, name):
        """A copy of a parameter, float32."""
        if name not in self._parameters:
            raise KeyError(name)
        out = numpy.empty(self._parameters[name], dtype=numpy.float32)
        _library.pst_session_read(self._pointer(), _text(name), out.ctypes.data, out.size)
        return out

    def save(self, folder):
        """Writes folder/checkpoints/step-N."""
        _library.pst_session_save(self._pointer(), _text(folder))

    def load(self, path):
        """Loads a checkpoint, or the newest one of a folder."""
        _library.pst_session_load(self._pointer(), _text(path))

    @property
    def hash(self):
        """XXH64 of all weights."""
        value = ctypes.c_uint64()
        _library.pst_session_hash(self._pointer(), ctypes.byref(value))
        return value.value

    @property
    def steps(self):
        return _library.pst_session_steps(self._pointer())

    @property
    def batch(self):
        """Samples of the next step: fewer than train.batch in the first steps of train.batch_warmup."""
        return _library.pst_session_batch(self._pointer())


def main():
    """Learns a fixed permutation of the vocabulary."""
    config = Config("example", ["model.kind=gpt", "model.layers=2", "model.heads=2", "model.channels=64",
                                "model.context=16", "model.vocabulary=64", "batch=16", "micro_batch=4", "steps=60",
                                "lr=5e-3", "warmup=5", "schedule=1f1b-early"])
    graph = Graph(config)
    plan = Plan(config, graph, ranks=2)
    print(f"{graph.weights} weights, {plan.stages} stages, {plan.schedule}, bubble {plan.bubble:.1%}")
    random = numpy.random.default_rng(1)
    with Session(config, graph, plan) as session:
        for _ in range(60):
            tokens = random.integers(64, size=(16, 16))
            result = session.step(tokens, (tokens * 5 + 7) % 64)
            if result.step % 20 == 0:
                print(f"step {result.step}  loss {result.loss:.4f}  {result.step_s * 1e3:.2f} ms")
        table = session.read("wte.weight")
        print(f"wte.weight {table.shape}: {table.mean():.4f} +- {table.std():.4f}")


if __name__ == "__main__":
    main()
