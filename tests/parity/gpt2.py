"""GPT-2 in plain PyTorch, parameters by Hugging Face's names and in its layout (Conv1D weights are [in, out]), and just
enough of the safetensors format. Used by make_fixture.py and bench/peer_torch.py; needs torch only."""

import json
import math
import struct

import torch
import torch.nn.functional as F


class GPT2(torch.nn.Module):
    """Pre-layer-norm, tied head, no dropout. tokens [B,T] -> mean cross-entropy over B*T targets, in nats."""

    def __init__(self, weights, layers, heads, gelu="tanh", fused_attention=True):
        super().__init__()
        self.layers, self.heads, self.gelu, self.fused_attention = layers, heads, gelu, fused_attention
        self.names = sorted(weights)
        for name in self.names:
            self.register_parameter(name.replace(".", "/"), torch.nn.Parameter(weights[name]))

    def weight(self, name):
        return self._parameters[name.replace(".", "/")]

    def linear(self, x, name):  # x [B,T,in] -> [B,T,out]
        # Not x @ W + b: below autocast that sum of a 16-bit product and a fp32 bias is fp32, and so is what follows.
        return F.linear(x, self.weight(name + ".weight").t(), self.weight(name + ".bias"))

    def head(self, x):  # x [B,T,C] -> logits [B,T,V]
        return F.linear(self.layer_norm(x, "ln_f"), self.weight("wte.weight"))

    def layer_norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.weight(name + ".weight"), self.weight(name + ".bias"), 1e-5)

    def attention(self, x, name):
        B, T, C = x.shape
        q, k, v = (part.view(B, T, self.heads, C // self.heads).transpose(1, 2)
                   for part in self.linear(x, name + ".c_attn").split(C, dim=2))  # each [B,H,T,C/H]
        if self.fused_attention:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(C // self.heads)
            mask = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
            y = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1) @ v
        return self.linear(y.transpose(1, 2).reshape(B, T, C), name + ".c_proj")

    def mlp(self, x, name):
        approximate = "tanh" if self.gelu == "tanh" else "none"
        return self.linear(F.gelu(self.linear(x, name + ".c_fc"), approximate=approximate), name + ".c_proj")

    def forward(self, tokens, targets):
        T = tokens.shape[1]
        x = F.embedding(tokens, self.weight("wte.weight")) + self.weight("wpe.weight")[:T]
        for i in range(self.layers):
            x = x + self.attention(self.layer_norm(x, f"h.{i}.ln_1"), f"h.{i}.attn")
            x = x + self.mlp(self.layer_norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp")
        logits = self.head(x)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten().long())

    def optimizer(self, lr, weight_decay, betas=(0.9, 0.95), eps=1e-8, of=None, **kwargs):
        """AdamW of this model, or of the module `of`; only what has two or more dimensions decays."""
        parameters = list((of or self).parameters())
        groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
                  {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=lr, betas=betas, eps=eps, **kwargs)


def random_weights(layers, channels, context, vocabulary, seed, scale=0.02):
    """GPT-2's initialisation with `scale` for its 0.02; residual projections divided by sqrt(2*layers). With a tied
    head and PyTorch's default for embeddings, N(0, 1), most of the softmax would be denormal numbers, which slow some
    processors down tenfold. Biases and layer norms get noise of a tenth of the scale where it is not GPT-2's, so that a
    test sees each of them."""
    g = torch.Generator().manual_seed(seed)
    noise = 0.0 if scale == 0.02 else scale / 10
    C, out = channels, {}

    def normal(name, shape, std):
        out[name] = torch.randn(shape, generator=g) * std

    normal("wte.weight", (vocabulary, C), scale)
    normal("wpe.weight", (context, C), scale / 2)
    for i in range(layers):
        for name, shape, std in ((f"h.{i}.attn.c_attn", (C, 3 * C), scale),
                                 (f"h.{i}.attn.c_proj", (C, C), scale / math.sqrt(2 * layers)),
                                 (f"h.{i}.mlp.c_fc", (C, 4 * C), scale),
                                 (f"h.{i}.mlp.c_proj", (4 * C, C), scale / math.sqrt(2 * layers))):
            normal(name + ".weight", shape, std)
            normal(name + ".bias", shape[1:], noise)
    for name in [f"h.{i}.ln_{k}" for i in range(layers) for k in (1, 2)] + ["ln_f"]:
        normal(name + ".weight", (C,), noise)
        out[name + ".weight"] += 1
        normal(name + ".bias", (C,), noise)
    return out


def save_safetensors(path, tensors):
    """fp32 tensors, sorted by name."""
    header, blobs, offset = {}, [], 0
    for name in sorted(tensors):
        t = tensors[name].detach().to(torch.float32).contiguous()
        blobs.append(bytes(t.untyped_storage())[: t.numel() * 4] if t.numel() < 1 << 20 else t.numpy().tobytes())
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [offset, offset + t.numel() * 4]}
        offset += t.numel() * 4
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for blob in blobs:
            f.write(blob)


def load_safetensors(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = bytearray(f.read())
    out = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F32":
            raise SystemExit(f"{path}: {name} is {entry['dtype']}, expected F32")
        begin, end = entry["data_offsets"]
        out[name.removeprefix("transformer.")] = torch.frombuffer(data, dtype=torch.float32, count=(end - begin) // 4,
                                                                 offset=begin).reshape(entry["shape"]).clone()
    dropped = (".attn.bias", ".attn.masked_bias", "lm_head.weight")
    return {name: t for name, t in out.items() if not name.endswith(dropped)}
