"""Computes with PyTorch what a run on one rank has recorded, from the text of its graph, and compares: loss, norm and
gradients of every step from the recorded weights, and the optimizer's step from the recorded gradients and states.
Where transformers is installed, its GPT-2, BERT or Llama with the same weights also computes loss and gradients.

    python3 with_torch.py FOLDER    reads graph.txt, index.txt and data.bin there; prints one line of JSON"""

import json
import math
import os
import sys

import torch
import torch.nn.functional as F

try:
    import transformers
except ImportError:
    transformers = None

FOLDER = sys.argv[1]
TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "I32": torch.int32, "F64": torch.float64}
WITHIN = 1e-4  # of the largest element of a tensor


class Record:
    """index.txt: "hyper NAME VALUE", or "KIND STEP MICRO TYPE FROM N OFFSET NAME"."""

    def __init__(self):
        self.hyper, self.tensors = {}, {}
        with open(os.path.join(FOLDER, "data.bin"), "rb") as f:
            data = bytearray(f.read())
        with open(os.path.join(FOLDER, "index.txt"), encoding="utf-8") as f:
            for line in f:
                words = line.split(maxsplit=7)
                if words[0] == "hyper":
                    self.hyper[words[1]] = words[2]
                    continue
                kind, step, micro, dtype, _, n, offset, name = words
                values = torch.frombuffer(data, dtype=TYPES[dtype], count=int(n), offset=int(offset)).clone()
                key = (kind, int(step), int(micro), name.strip())
                known = self.tensors.get(key)  # the pieces of a parameter follow one another
                self.tensors[key] = values if known is None else torch.cat([known, values])

    def get(self, kind, step, name, micro=-1):
        return self.tensors.get((kind, step, micro, name))

    def state(self, step, name):
        """The optimizer's, which may be bf16, in fp32."""
        value = self.get("state", step, name)
        return None if value is None else value.float()

    def number(self, step, name):
        return self.get("number", step, name)[0].item()

    def steps(self):
        return sorted({step for kind, step, _, _ in self.tensors if kind == "number"})

    def micros(self, step):
        return sorted({micro for kind, at, micro, _ in self.tensors if kind == "data" and at == step})

    def data(self, step, micro, graph):
        """What a micro-batch reads; it may have fewer samples than the graph."""
        return {name: self.get("data", step, name, micro).view(-1, *shape[1:]) for name, shape in graph.data.items()}

    def samples(self, step, graph):
        """Of the batch of the step."""
        return float(sum(len(next(iter(self.data(step, micro, graph).values()))) for micro in self.micros(step)))


class Graph:
    """The text of src/graph/text.c."""

    def __init__(self):
        self.shapes, self.data, self.nodes, self.kind = {}, {}, [], ""
        self.decay, self.statistic, self.frozen = set(), set(), set()
        with open(os.path.join(FOLDER, "graph.txt"), encoding="utf-8") as f:
            for line in f:
                words = line.split()
                if words and words[0] == "graph":
                    self.kind = words[1]
                if not words or words[0] not in ("param", "data", "node"):
                    continue
                if words[0] == "node":
                    self.nodes.append(self.node(words))
                    continue
                shape = [int(n) for n in words[2].strip("[]").split(",")]
                (self.shapes if words[0] == "param" else self.data)[words[1]] = shape
                if "decay" in words:
                    self.decay.add(words[1])
                if "statistic" in words:
                    self.statistic.add(words[1])
                if "frozen" in words:
                    self.frozen.add(words[1])

    def trained(self):
        return [name for name in self.shapes if name not in self.statistic | self.frozen]

    @staticmethod
    def node(words):
        node = {"name": words[1], "op": words[2], "in": [], "param": [], "attr": {}}
        rest = words[3:]
        while rest and rest[0] in ("in", "param"):
            node[rest[0]] = rest[1].split(",")
            rest = rest[2:]
        node["attr"] = dict(word.split("=") for word in rest)
        return node

    def loss(self, data, weights, tokens, samples):
        """The share of one micro-batch in the loss: means over the batch's targets, or over its samples."""
        value, total = dict(data), 0.0
        for node in self.nodes:
            ins, params = [value[name] for name in node["in"]], [weights[name] for name in node["param"]]
            out = OPERATORS[node["op"]](ins, params, node["attr"])
            value[node["name"] + ".out"] = out
            if node["op"] == "cross_entropy":
                total = total + out / (samples if int(node["attr"].get("per_sample", 0)) else tokens)
        return total


def activate(x, attr):
    name = attr.get("activation", "none")
    if name == "relu":
        return F.relu(x)
    if name == "tanh":
        return torch.tanh(x)
    if name.startswith("gelu"):
        return F.gelu(x, approximate="tanh" if "tanh" in name else "none")
    if name == "none":
        return x
    raise ValueError(f"activation {name}")


def embedding(ins, params, attr):
    x = F.embedding(ins[0].long(), params[0])
    positions = torch.arange(x.shape[1])
    if len(params) > 2:  # types
        x = x + F.embedding(ins[1].long(), params[2])
    elif len(ins) > 1:  # starts
        positions = positions - ins[1].long()
    return x + params[1][positions] if len(params) > 1 else x


def heads_of(ins, attr):
    """q, k, v [B,heads,T,D]: of one input, or of three with fewer heads of keys and values."""
    B, T, _ = ins[0].shape
    heads, kv_heads = int(attr["heads"]), int(attr.get("kv_heads", 0))
    if not kv_heads:
        return [part.view(B, T, heads, -1).transpose(1, 2) for part in ins[0].chunk(3, dim=2)]
    q, k, v = (x.view(B, T, n, -1).transpose(1, 2) for x, n in zip(ins, (heads, kv_heads, kv_heads)))
    return [q] + [x.repeat_interleave(heads // kv_heads, dim=1) for x in (k, v)]


def gather_rows(ins, params, attr):
    if len(ins) == 1:
        return ins[0][:, :1]
    rows_at = torch.arange(ins[0].shape[0])[:, None]
    return ins[0][rows_at, ins[1].long().clamp(min=0)] * (ins[1] >= 0)[:, :, None]


def attention(ins, params, attr):
    (q, k, v), (B, T, _) = heads_of(ins, attr), ins[0].shape
    mask = ins[3 if "kv_heads" in attr else 1:]
    sees = torch.ones(T, T, dtype=torch.bool)
    if not int(attr.get("bidirectional", 0)):
        sees = sees.tril()
    if "window" in attr:
        sees = sees.triu(1 - int(attr["window"]))
    sees = sees.expand(B, 1, T, T)
    inside = torch.ones(B, T, dtype=torch.bool)
    if mask and mask[0].dim() == 2:  # starts
        sees = sees & (torch.arange(T) >= mask[0][:, :, None])[:, None]
    elif mask:
        inside = torch.arange(T)[None] < mask[0].clamp(0, T)[:, None]
        sees = sees & inside[:, None, None, :]
    scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(~sees, -1e30)
    y = (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(B, T, -1)
    return y * inside[:, :, None]


def rope_angles(attr, D):
    """Radians from a position to the next for each pair, and the factor of sines and cosines."""
    theta, factor, scaling = float(attr["theta"]), float(attr.get("factor", 1)), attr.get("scaling", "none")
    pairs = torch.arange(D // 2, dtype=torch.float64)
    angle = theta ** (-2 * pairs / D)
    low, high, context = (float(attr.get(name, 0)) for name in ("low", "high", "context"))
    if scaling == "linear":
        return angle / factor, 1.0
    if scaling == "llama3":
        keep = ((context * angle / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
        return (1 - keep) * angle / factor + keep * angle, 1.0
    if scaling == "yarn":
        first, last = (D * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(theta)) for turns in (high, low))
        first, last = max(math.floor(first), 0), min(math.ceil(last), D - 1)
        divided = ((pairs - first) / max(last - first, 0.001)).clamp(0, 1)
        return angle / factor * divided + angle * (1 - divided), float(attr.get("attention", 0.1 * math.log(factor) + 1))
    return angle, 1.0


def rotary(ins, params, attr):
    B, T, C = ins[0].shape
    heads = int(attr["heads"])
    angle, factor = rope_angles(attr, C // heads)
    positions = torch.arange(T)[None].expand(B, T)
    if len(ins) > 1:  # starts
        positions = positions - ins[1].long()
    turn = positions[:, :, None, None].float() * angle.float()
    a, b = ins[0].view(B, T, heads, -1).chunk(2, dim=3)
    cosine, sine = turn.cos() * factor, turn.sin() * factor
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=3).view(B, T, C)


def rms_norm(ins, params, attr):
    return ins[0] * torch.rsqrt(ins[0].pow(2).mean(-1, keepdim=True) + float(attr["eps"])) * params[0]


def cross_entropy(ins, params, attr):
    targets = ins[1].flatten().long()
    logits = ins[0].reshape(targets.numel(), -1)
    loss = F.cross_entropy(logits, targets.where(targets >= 0, -100), reduction="sum", ignore_index=-100,
                           label_smoothing=float(attr.get("smoothing", 0)))
    return loss + float(attr.get("z_loss", 0)) * logits[targets >= 0].logsumexp(dim=1).square().sum()


def images(x):
    return x.permute(0, 3, 1, 2)


def rows(x):
    return x.permute(0, 2, 3, 1)


def convolution(ins, params, attr):
    return rows(F.conv2d(images(ins[0]), images(params[0]), params[1] if len(params) > 1 else None,
                         stride=int(attr.get("stride", 1)), padding=int(attr.get("padding", 0))))


def batch_norm(ins, params, attr):
    C = ins[0].shape[-1]
    y = F.batch_norm(ins[0].reshape(-1, C), None, None, params[0], params[1], training=True, eps=float(attr["eps"]))
    y = y.view(ins[0].shape)
    return activate(y + ins[1] if len(ins) > 1 else y, attr)


OPERATORS = {
    "embedding": embedding,
    "gather_rows": gather_rows,
    "attention": attention,
    "cross_entropy": cross_entropy,
    "layer_norm": lambda i, p, a: F.layer_norm(i[0], i[0].shape[-1:], p[0], p[1], float(a["eps"])),
    "rms_norm": rms_norm,
    "rotary": rotary,
    "gated": lambda i, p, a: F.silu(i[0]) * i[1],
    "linear": lambda i, p, a: activate(F.linear(i[0], p[0], p[1] if len(p) > 1 else None), a),
    "scale": lambda i, p, a: i[0] * float(a["factor"]),
    "activation": lambda i, p, a: activate(i[0], a),
    "add": lambda i, p, a: i[0] + i[1],
    "narrow": lambda i, p, a: i[0],
    "pixels": lambda i, p, a: i[0].float() / 127.5 - 1,
    "convolution": convolution,
    "batch_norm": batch_norm,
    "max_pool": lambda i, p, a: rows(F.max_pool2d(images(i[0]), int(a["window"]), int(a.get("stride", 1)),
                                                  int(a.get("padding", 0)))),
    "average_pool": lambda i, p, a: i[0].mean(dim=(1, 2))[:, None],
}


class Comparison:
    def __init__(self):
        self.compared, self.different, self.worst, self.first = 0, 0, 0.0, None

    def check(self, step, what, ours, theirs, allowed=None, within=WITHIN):
        """allowed: the largest difference; by default `within` of the largest element."""
        self.compared += 1
        ours, theirs = ours.detach().double().view(theirs.shape), theirs.detach().double()
        scale = max(ours.abs().max().item(), theirs.abs().max().item(), 1e-30)
        off = (ours - theirs).abs()
        self.worst = max(self.worst, (off.max() / scale).item() if allowed is None else 0.0)
        bad = ~(off <= (within * scale if allowed is None else allowed))
        if not bad.any():
            return
        self.different += 1
        if self.first is None:
            at = bad.flatten().nonzero()[0].item()
            index = [int(i) for i in torch.unravel_index(torch.tensor(at), theirs.shape)] if theirs.dim() else []
            self.first = (f"step {step + 1}: {what} {index} is {ours.flatten()[at].item():.9g}, in PyTorch "
                          f"{theirs.flatten()[at].item():.9g}")


class Lamb:
    """You et al. 2020, algorithm 2; parameters without weight decay have the ratio 1."""

    def __init__(self, h, lr, done, weights, decay, state):
        self.h, self.lr, self.done, self.weights, self.decay, self.state = h, lr, done, weights, decay, state

    def step(self):
        b1, b2, eps, t = float(self.h["beta1"]), float(self.h["beta2"]), float(self.h["eps"]), self.done + 1
        for name, w in self.weights.items():
            m, v = self.state(name, "m"), self.state(name, "v")
            m.mul_(b1).add_(w.grad, alpha=1 - b1)
            v.mul_(b2).addcmul_(w.grad, w.grad, value=1 - b2)
            u = m / (1 - b1**t) / ((v / (1 - b2**t)).sqrt() + eps)
            ratio = 1.0
            if name in self.decay:
                u += float(self.h["weight_decay"]) * w
                norms = w.norm().item(), u.norm().item()
                ratio = norms[0] / norms[1] if min(norms) > 0 else 1.0
            with torch.no_grad():
                w.sub_(u, alpha=self.lr * ratio)


def newton_schulz(x):
    """torch.optim.Muon's iteration, in fp32."""
    turned = x.shape[0] > x.shape[1]
    x = (x.t() if turned else x) / x.norm().clamp(min=1e-7)
    for _ in range(5):
        a = x @ x.t()
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.t() if turned else x


class Muon:
    """Muon with the scale of Liu et al. 2025 for parameters without a state v; AdamW for the others."""

    def __init__(self, h, lr, weights, decay, state, adamw):
        self.h, self.lr, self.weights, self.decay, self.state, self.adamw = h, lr, weights, decay, state, adamw

    def step(self):
        mu = float(self.h["momentum"])
        self.adamw.step()
        for name, w in self.weights.items():
            m = self.state(name, "m")
            m.mul_(mu).add_(w.grad, alpha=1 - mu)
            x = newton_schulz((1 - mu) * w.grad + mu * m)
            with torch.no_grad():
                w.mul_(1 - self.lr * (float(self.h["weight_decay"]) if name in self.decay else 0.0))
                w.sub_(x, alpha=self.lr * 0.2 * max(w.shape) ** 0.5)


def make_optimizer(record, graph, weights, step):
    """PyTorch's optimizer, with the recorded states of before this step."""
    h, lr = record.hyper, record.number(step, "learning rate")
    names = graph.trained()

    def state(name, which):
        value = record.state(step, f"{name}.{which}")
        return None if value is None else value.view(weights[name].shape).clone()

    if h["optimizer"] == "lamb":
        done = record.number(step, "optimizer step") - 1
        return Lamb(h, lr, done, {name: weights[name] for name in names}, graph.decay, state)
    matrices = {}
    if h["optimizer"] == "muon":
        matrices = {name: weights[name] for name in names if state(name, "v") is None}
        names = [name for name in names if name not in matrices]
    groups = [{"params": [weights[n] for n in names if n in graph.decay], "weight_decay": float(h["weight_decay"])},
              {"params": [weights[n] for n in names if n not in graph.decay], "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    if h["optimizer"] == "sgd":
        optimizer = torch.optim.SGD(groups, lr=lr, momentum=float(h["momentum"]), nesterov=h["nesterov"] == "true")
    else:
        kind = torch.optim.Adam if h["optimizer"] == "adam" else torch.optim.AdamW
        optimizer = kind(groups, lr=lr, betas=(float(h["beta1"]), float(h["beta2"])), eps=float(h["eps"]))
    done = record.number(step, "optimizer step") - 1
    for name in names if done else []:
        shape = weights[name].shape
        states = {state: record.state(step, f"{name}.{state}") for state in ("m", "v", "momentum")}
        states = {state: value.view(shape).clone() for state, value in states.items() if value is not None}
        optimizer.state[weights[name]] = {"step": torch.tensor(float(done)), "exp_avg": states.get("m"),
                                          "exp_avg_sq": states.get("v"), "momentum_buffer": states.get("momentum")}
    return Muon(h, lr, matrices, graph.decay, state, optimizer) if matrices else optimizer


def check_step(record, graph, step, result):
    weights = {}
    for name, shape in graph.shapes.items():
        weights[name] = record.get("state", step, name).view(shape).clone()
    trained = graph.trained()
    for name in trained:
        weights[name].requires_grad_()
    within = float(record.hyper["within_gradients"])
    tokens, samples, loss = record.number(step, "tokens"), record.samples(step, graph), 0.0
    for micro in record.micros(step):
        data = record.data(step, micro, graph)
        part = graph.loss(data, weights, tokens, samples)
        part.backward()
        loss += part.item()
    result.check(step, "loss", record.get("number", step, "loss"), torch.tensor([loss]))
    for name in trained:
        result.check(step, f"gradient of {name}", record.get("sum", step, f"gradient of {name}"), weights[name].grad,
                     within=within)
    norm = torch.sqrt(sum(weights[name].grad.double().square().sum() for name in trained))
    result.check(step, "gradient norm", record.get("number", step, "gradient norm"), norm[None], within=within)
    for name in trained:  # from here on with the recorded gradients: what differs is the optimizer
        weights[name].grad = record.get("sum", step, f"gradient of {name}").view(weights[name].shape).clone()
    optimizer = make_optimizer(record, graph, weights, step)
    if float(record.hyper["clip"]):
        torch.nn.utils.clip_grad_norm_([weights[name] for name in trained], float(record.hyper["clip"]))
    optimizer.step()
    for name in trained:
        after = record.get("state", step + 1, name)
        allowed = 1e-6 * after.abs().max().item() + 1e-3 * record.number(step, "learning rate")
        result.check(step, f"after STEP: {name}", after, weights[name], allowed)


def attribute(graph, op, name):
    return next(node["attr"].get(name) for node in graph.nodes if node["op"] == op and name in node["attr"])


def sizes(graph):
    """Keys that both configurations have, under other names."""
    layers = sum(node["op"] == "attention" for node in graph.nodes)
    heads = int(attribute(graph, "attention", "heads"))
    return graph.shapes["wte.weight"] + [graph.shapes["wpe.weight"][0], layers, heads]


def their_gpt(graph):
    tokens, channels, context, layers, heads = sizes(graph)
    activation = {"gelu_tanh": "gelu_new", "gelu_erf": "gelu", "relu": "relu"}[attribute(graph, "linear", "activation")]
    config = transformers.GPT2Config(vocab_size=tokens, n_positions=context, n_embd=channels, n_layer=layers,
                                     n_head=heads, activation_function=activation, resid_pdrop=0, embd_pdrop=0,
                                     attn_pdrop=0, bos_token_id=None, eos_token_id=None)
    model, names = transformers.GPT2LMHeadModel(config), {}
    for name in graph.shapes:  # a Conv1D has the transpose of a Linear's weight
        turned = ".c_" in name and name.endswith(".weight")
        names[name] = [(f"transformer.{name}", turned)]
    return model, names


BERT_NAMES = {"wte": "bert.embeddings.word_embeddings", "wpe": "bert.embeddings.position_embeddings",
              "wtt": "bert.embeddings.token_type_embeddings", "ln_e": "bert.embeddings.LayerNorm",
              "head": "cls.predictions.transform.dense", "ln_f": "cls.predictions.transform.LayerNorm",
              "lm_head": "cls.predictions", "pooler": "bert.pooler.dense", "nsp": "cls.seq_relationship",
              "classifier": "classifier"}
BERT_LAYER = {"attn.c_proj": "attention.output.dense", "ln_1": "attention.output.LayerNorm",
              "mlp.c_fc": "intermediate.dense", "mlp.c_proj": "output.dense", "ln_2": "output.LayerNorm"}


def their_bert(graph):
    tokens, channels, context, layers, heads = sizes(graph)
    config = transformers.BertConfig(vocab_size=tokens, max_position_embeddings=context, hidden_size=channels,
                                     num_hidden_layers=layers, num_attention_heads=heads,
                                     type_vocab_size=graph.shapes.get("wtt.weight", [1])[0],
                                     intermediate_size=graph.shapes["h.0.mlp.c_fc.weight"][0],
                                     layer_norm_eps=float(attribute(graph, "layer_norm", "eps")),
                                     num_labels=graph.shapes.get("classifier.weight", [2])[0],
                                     hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    kind = transformers.BertForPreTraining if "nsp.weight" in graph.shapes else transformers.BertForMaskedLM
    if "classifier.weight" in graph.shapes:
        kind = transformers.BertForSequenceClassification
    model, names = kind(config), {}
    if "wtt.weight" not in graph.shapes:
        with torch.no_grad():
            model.bert.embeddings.token_type_embeddings.weight.zero_()
    for name in graph.shapes:
        stem, kind = name.rsplit(".", 1)
        if stem in BERT_NAMES:
            names[name] = [(f"{BERT_NAMES[stem]}.{kind}", False)]
            continue
        layer, part = stem.split(".", 2)[1:]
        inside = f"bert.encoder.layer.{layer}"
        if part == "attn.c_attn":
            names[name] = [(f"{inside}.attention.self.{which}.{kind}", False) for which in ("query", "key", "value")]
        else:
            names[name] = [(f"{inside}.{BERT_LAYER[part]}.{kind}", False)]
    return model, names


def node_attr(graph, op):
    return next(node["attr"] for node in graph.nodes if node["op"] == op)


def their_llama(graph):
    rope, seen, norm = (node_attr(graph, op) for op in ("rotary", "attention", "rms_norm"))
    tokens, channels = graph.shapes["embed_tokens.weight"]
    layers = sum(name.endswith("q_proj.weight") for name in graph.shapes)
    scaling = {"rope_type": rope.get("scaling", "default"), "rope_theta": float(rope["theta"])}
    if "factor" in rope:
        scaling["factor"] = float(rope["factor"])
    if "context" in rope:
        scaling["original_max_position_embeddings"] = int(rope["context"])
        names = {"llama3": ("low_freq_factor", "high_freq_factor"), "yarn": ("beta_slow", "beta_fast")}
        for name, key in zip(names[rope["scaling"]], ("low", "high")):
            scaling[name] = float(rope[key])
    if "attention" in rope:
        scaling["attention_factor"] = float(rope["attention"])
    sizes = dict(vocab_size=tokens, hidden_size=channels, num_hidden_layers=layers,
                 intermediate_size=graph.shapes["layers.0.mlp.gate_proj.weight"][0],
                 num_attention_heads=int(seen["heads"]), num_key_value_heads=int(seen["kv_heads"]),
                 max_position_embeddings=graph.data["tokens"][1], rms_norm_eps=float(norm["eps"]),
                 rope_parameters=scaling, tie_word_embeddings="lm_head.weight" not in graph.shapes,
                 attn_implementation="eager")
    kind = "Llama"
    if "layers.0.self_attn.q_proj.bias" in graph.shapes:
        kind = "Qwen2"
    elif "window" in seen:
        kind, sizes["sliding_window"] = "Mistral", int(seen["window"])
    model = getattr(transformers, kind + "ForCausalLM")(getattr(transformers, kind + "Config")(**sizes))
    names = {name: [("" if name.startswith("lm_head") else "model.") + name] for name in graph.shapes}
    return model, {name: [(to, False) for to in list_] for name, list_ in names.items()}


def bert_loss(model, data, attr, tokens, samples):
    """As BertForPreTraining, whose means would be over a micro-batch."""
    positions = torch.arange(data["tokens"].shape[1])[None]
    mask = (positions < data["lengths"][:, None]).long()
    types = data["types"].long() if "types" in data else None
    said = model(data["tokens"].long(), attention_mask=mask, token_type_ids=types)
    logits = said.prediction_logits if "next_sentence" in data else said.logits
    if logits.dim() == 2:  # of labels
        logits = logits[:, None]
    if "positions" in data:
        logits = gather_rows([logits, data["positions"]], [], {})
    loss = cross_entropy([logits, data["targets"]], [], attr) / tokens
    if "next_sentence" in data:
        loss = loss + cross_entropy([said.seq_relationship_logits, data["next_sentence"]], [], attr) / samples
    return loss


def their_loss(graph, model, data, tokens, samples):
    attr = node_attr(graph, "cross_entropy")
    if graph.kind in ("gpt", "llama"):
        return cross_entropy([model(data["tokens"].long()).logits, data["targets"]], [], attr) / tokens
    return bert_loss(model, data, attr, tokens, samples)


def check_transformers(record, graph, step, result):
    """Loss and gradients of the model of transformers."""
    model, names = {"gpt": their_gpt, "bert": their_bert, "llama": their_llama}[graph.kind](graph)
    theirs = dict(model.named_parameters())
    with torch.no_grad():
        for name, shape in graph.shapes.items():
            whole = record.get("state", step, name).view(shape)
            for (to, turned), part in zip(names[name], whole.chunk(len(names[name]))):
                theirs[to].copy_(part.t() if turned else part)
    tokens, samples, loss = record.number(step, "tokens"), record.samples(step, graph), 0.0
    for micro in record.micros(step):
        data = record.data(step, micro, graph)
        part = their_loss(graph, model, data, tokens, samples)
        part.backward()
        loss += part.item()
    result.check(step, "loss (transformers)", record.get("number", step, "loss"), torch.tensor([loss]))
    for name in graph.trained():
        gradient = torch.cat([theirs[to].grad.t() if turned else theirs[to].grad for to, turned in names[name]])
        ours = record.get("sum", step, f"gradient of {name}")
        result.check(step, f"gradient of {name} (transformers)", ours, gradient,
                     within=float(record.hyper["within_gradients"]))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if transformers is not None:
        transformers.logging.set_verbosity_error()
    record, graph, result = Record(), Graph(), Comparison()
    also = transformers is not None and graph.kind in ("gpt", "bert", "llama") and "starts" not in graph.data
    also = also and not any(node["name"].endswith(".lora_A") for node in graph.nodes)
    for step in record.steps():
        check_step(record, graph, step, result)
        if also:
            check_transformers(record, graph, step, result)
    print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__ if also else None,
                      "compared": result.compared, "different": result.different,
                      "worst": result.worst, "first": result.first}))


main()
