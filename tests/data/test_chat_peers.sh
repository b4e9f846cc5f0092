#!/bin/sh
# test: label=full timeout=300
# Conversations have the same ids as those of transformers' apply_chat_template, and the same tokens are learned.
. "$(dirname "$0")/../script.sh"
python=${PST_TORCH_PYTHON:-python3}
"$python" -c 'import transformers, numpy' 2>/dev/null || skip "needs Python with transformers: pip install transformers, or
PST_TORCH_PYTHON=a Python that has it"

cat "$SOURCE_DIR"/docs/*.md >text.txt
"$PENSTOCK" tokenize --train --vocabulary 600 -o tok text.txt >out || fail "learning: $(cat out)"
cat >peers.py <<'END'
import glob, json, struct, subprocess, sys
import numpy
from transformers import PreTrainedTokenizerFast

SPECIAL = ["<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
# The published templates without tools; what `generation` encloses is learned.
CHATML = ("{% for message in messages %}{% if message['role'] == 'assistant' %}{{ '<|im_start|>assistant\n' }}"
          "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\n' }}{% else %}"
          "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
          "{% endif %}{% endfor %}")
QWEN = ("{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. "
        "You are a helpful assistant.<|im_end|>\n' }}{% endif %}" + CHATML)
LLAMA3 = ("{{ '<|begin_of_text|>' }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + "
          "'<|end_header_id|>\n\n' }}{% if message['role'] == 'assistant' %}{% generation %}"
          "{{ message['content'] | trim + '<|eot_id|>' }}{% endgeneration %}{% else %}"
          "{{ message['content'] | trim + '<|eot_id|>' }}{% endif %}{% endfor %}")

CONVERSATIONS = [
    [("user", "Which pump is on?"), ("assistant", "The second one.")],
    [("system", "Answer in one word."), ("user", "On?"), ("assistant", "Yes"), ("user", "And now?"), ("assistant", "No")],
    [("user", "  blanks \n around\t"), ("assistant", "\n\n\u00a0a list:\n\n- one\n- two \u2003\n")],
    [("assistant", ""), ("user", ""), ("assistant", "\u00e9\u4e2d\U0001f600e\u0301 <|im_end|> text <|eot_id|>")],
    [("user", "12345 isn't 1e5"), ("assistant", "int main(void) {\n    return 0;\n}\n"), ("system", "stop")],
]

with open("tok/tokenizer.json") as f:
    tokenizer = json.load(f)
first = 1 + max(t["id"] for t in tokenizer["added_tokens"])
for i, text in enumerate(SPECIAL):
    tokenizer["added_tokens"].append(dict(id=first + i, content=text, special=True, single_word=False, lstrip=False,
                                          rstrip=False, normalized=False))
with open("tok/tokenizer.json", "w") as f:
    json.dump(tokenizer, f)
with open("chat.jsonl", "w") as f:
    for c in CONVERSATIONS:
        print(json.dumps({"messages": [{"role": r, "content": t} for r, t in c]}), file=f)


def documents(prefix):
    with open(prefix + ".idx", "rb") as f:
        data = f.read()
    code, n, borders = data[17], *struct.unpack("<QQ", data[18:34])
    lengths = numpy.frombuffer(data, numpy.int32, n, 34)
    numbers = numpy.fromfile(prefix + ".bin", {8: numpy.uint16, 4: numpy.int32}[code])
    at = 0
    for length in lengths:
        yield numbers[at:at + length]
        at += length


bad = 0
for name, template in ("chatml", CHATML), ("llama3", LLAMA3), ("qwen", QWEN):
    run = ["train", "run.yaml", "-q", "-n", "1", "name=" + name, "data.template=" + name, "data.cache=" + name]
    subprocess.run([sys.argv[1], *run], check=True)
    peer = PreTrainedTokenizerFast(tokenizer_file="tok/tokenizer.json", chat_template=template)
    (index,) = glob.glob(name + "/*.idx")
    found = list(documents(index[:-4]))
    assert len(found) == len(CONVERSATIONS)
    for c, numbers in zip(CONVERSATIONS, found):
        messages = [{"role": r, "content": t} for r, t in c]
        want = peer.apply_chat_template(messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        if list(numbers // 2) != list(want["input_ids"]):
            bad = 1
            print(name, messages, "ids", list(numbers // 2), "expected", want["input_ids"])
        elif list(numbers % 2) != list(want["assistant_masks"]):
            bad = 1
            print(name, messages, "learned", list(numbers % 2), "expected", want["assistant_masks"])
sys.exit(bad)
END
cat >run.yaml <<END
model: {kind: gpt, layers: 1, heads: 1, channels: 16, context: 256}
data: {kind: chat, paths: [chat.jsonl], tokenizer: tok, validation: 0}
train: {steps: 1, batch: 1}
END
"$python" peers.py "$PENSTOCK" 2>err || fail "$(cat err)"
exit $bad
