#!/bin/sh
# test: label=full timeout=300
# BERT as transformers computes it: logits of weights that save_pretrained wrote, 20 steps, and the weights out again.
set -eu
# shellcheck source=tests/parity/torch.sh
. "$(dirname "$0")/torch.sh"
need_torch ', transformers'
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" "$SOURCE_DIR/tests/parity/bert.py" "$folder"
PENSTOCK_BERT_FIXTURE=$folder "$(dirname "$PENSTOCK")/test_run_bert_parity"
"$python" - "$folder" <<'END'
import sys
import transformers
transformers.logging.set_verbosity_error()
first, second = (transformers.BertForPreTraining.from_pretrained(f"{sys.argv[1]}/{name}").state_dict() for name in ("hf", "out"))
assert first.keys() == second.keys()
assert all((first[name] == second[name]).all() for name in first)
END
