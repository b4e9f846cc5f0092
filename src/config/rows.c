/* The table of all keys of a run file. Reading, overrides, defaults, ranges, help, the resolved
 * copy and "did you mean" all use it: a new option is one row here and one member in config.h.
 * Rows of a section, those of its subsections included, stand together. */
#include "config/rows.h"
#include <math.h>
#include <stdio.h>

#define AT(member) offsetof(struct pst_config, member)
#define WHOLE(section, key, fallback, min, max, help)                                              \
    { #section, #key, PST_ROW_WHOLE, fallback, min, max, 0, NULL, AT(section.key), 0, help, NULL }
#define REAL(section, key, fallback, min, max, flags, help)                                        \
    {                                                                                              \
#section, #key, PST_ROW_REAL, fallback, min, max, flags, NULL, AT(section.key), 0, help,   \
            NULL                                                                                   \
    }
#define TEXT(section, key, fallback, flags, allowed, help)                                         \
    { #section, #key, PST_ROW_TEXT, fallback, 0, 0, flags, allowed, AT(section.key), 0, help, NULL }
enum {
    REQUIRED = PST_ROW_REQUIRED,
    ABOVE = PST_ROW_ABOVE,
    BELOW = PST_ROW_BELOW,
    FILLED = PST_ROW_FILLED
};
enum { PATH = PST_ROW_PATH, FULL = PST_ROW_FULL };

static const pst_row rows[] = {
    {"", "name", PST_ROW_TEXT, "", 0, 0, 0, NULL, AT(name), 0,
     "Name of the run's folder; by default the name of the run file without the extension.", NULL},

    TEXT(model, kind, NULL, REQUIRED, "gpt|llama|bert|mlp|resnet|custom",
         "Model family; custom: a graph that a program builds with the library."),
    TEXT(model, preset, "", 0, NULL, "A named size of the family; the keys below override it."),
    TEXT(model, weights, "", PATH, NULL,
         "Initial weights, and sizes that no other key sets: a folder with config.json and "
         "model.safetensors (or its shards) as Hugging Face writes them for GPT-2, Llama, Qwen 2, "
         "Mistral and BERT, or a safetensors file in it, or for gpt a GPT-2 checkpoint of llm.c "
         "(FILE.bin), with the same tokenizer as the data; empty: random."),
    TEXT(model, activation, "gelu_tanh", 0, "gelu_tanh|gelu_erf|relu",
         "Activation function (bert always uses gelu_erf)."),
    WHOLE(model, layers, "0", 0, 10000, "Number of layers; 0: from the preset."),
    WHOLE(model, heads, "0", 0, 4096, "Number of attention heads; 0: from the preset."),
    WHOLE(model, channels, "0", 0, 1048576,
          "Number of channels (hidden size); 0: from the preset."),
    WHOLE(model, context, "0", 0, 1048576, "Tokens per sample; 0: from the preset."),
    WHOLE(model, vocabulary, "0", 0, 16777216,
          "Number of distinct tokens, or of image classes; 0: from the preset or the data."),
    WHOLE(model, kv_heads, "0", 0, 4096,
          "Number of heads of keys and values, each of which serves several heads; 0: from the "
          "preset, else heads."),
    WHOLE(model, intermediate, "0", 0, 1048576,
          "Width of the MLP, which llama has gated; 0: from the preset, else, with bert, 4 x "
          "channels."),
    WHOLE(model, window, "0", 0, 1048576,
          "Number of positions to which a position attends, itself included; 0: from the preset, "
          "else all."),
    REAL(model, norm_eps, "0", 0, 1, 0,
         "Epsilon of RMS norms (llama) or layer norms (bert); 0: from the preset, else 1e-5 or, "
         "with bert, 1e-12."),
    TEXT(model, tied, "preset", 0, "preset|true|false",
         "true: the output layer has the weights of the token embedding; preset: from the preset, "
         "else false."),
    TEXT(model, bias, "preset", 0, "preset|true|false",
         "true: the layers of queries, keys and values have biases; preset: from the preset, else "
         "false."),
    REAL(model, rope_theta, "0", 0, INFINITY, 0,
         "Base of rotary positions; 0: from the preset, else 10000."),
    TEXT(
        model, rope_scaling, "preset", 0, "preset|none|linear|llama3|yarn",
        "How rotary positions are stretched beyond the context that they were trained for; preset: "
        "from the preset, else none."),
    REAL(model, rope_factor, "8", 1, INFINITY, 0,
         "Factor by which rope_scaling stretches the context."),
    WHOLE(model, rope_context, "8192", 1, 1048576,
          "llama3, yarn: context before rope_scaling stretched it."),
    REAL(model, rope_low, "0", 0, INFINITY, 0,
         "llama3, yarn: pairs of channels with fewer turns within rope_context are stretched by "
         "rope_factor; 0: 1."),
    REAL(model, rope_high, "0", 0, INFINITY, 0,
         "llama3, yarn: pairs with more turns stay as they are; 0: 4 for llama3, 32 for yarn."),
    REAL(model, rope_attention, "0", 0, INFINITY, 0,
         "yarn: factor of queries and keys; 0: 0.1 ln(rope_factor) + 1."),
    WHOLE(model, image, "0", 0, 65536, "Width and height of an image in pixels; 0: from the data."),
    WHOLE(model, token_types, "2", 0, 1024,
          "Number of token types, each with an embedding: 0 for segment A and 1 for segment B; 0: "
          "none."),
    WHOLE(model, max_predictions, "0", 0, 1048576,
          "Largest number of masked tokens of a sample; the logits of these alone are computed. 0: "
          "15 % of the context, rounded up. As large as the context: each token is chosen with a "
          "probability of 15 %, and all logits are computed."),
    TEXT(model, next_sentence, "preset", 0, "preset|true|false",
         "true: samples are pairs of segments, and the model also learns whether the second "
         "follows the first in the text; preset: true with the presets base and large."),
    TEXT(model, task, "pretraining", 0, "pretraining|classification",
         "What bert learns. pretraining: masked tokens and, with next_sentence, whether segments "
         "follow each other; classification: the label of a text (data.kind labels), from [CLS] by "
         "the pooler and a linear layer."),
    {"model", "labels", PST_ROW_LIST, NULL, 0, 0, 0, NULL, AT(model.labels), AT(model.n_labels),
     "classification: the names of the labels, such as [negative, positive], in the order of their "
     "numbers, or how many there are. Empty: those of model.weights if they are of a "
     "classification, else those of the data, sorted.",
     NULL},
    REAL(model, dropout, "0", 0, 1, BELOW,
         "Probability with which an activation is dropped during training."),
    REAL(model, attention_dropout, "0", 0, 1, BELOW,
         "Probability with which a probability of attention is dropped during training, by kernels "
         "that are slower than those without, most of all on GPUs; GPT-2 and BERT as published: "
         "0.1."),

    TEXT(data, kind, "text", 0, "text|tokens|lines|labels|chat|mnist|cifar10|custom",
         "Contents of the files. text: text, for next-token prediction. tokens: the same of files "
         "with tokens: Megatron's PREFIX.bin and PREFIX.idx, shards of llm.c, or numbers of 16 "
         "bits as nanoGPT writes them. lines: lines of text, for "
         "masked-token prediction (bert), which also takes text and tokens with a tokenizer. "
         "labels: texts with a label each, for classification (bert): CSV with a header (*.csv) or "
         "JSON Lines, also compressed. chat: "
         "JSON Lines of conversations, whose answers are learned. mnist, cifar10: images in the "
         "idx format of MNIST or the "
         "binary format of CIFAR-10. custom: no files; a program passes data through the library."),
    {"data", "paths", PST_ROW_LIST, NULL, 0, 0, REQUIRED | FILLED | PATH, NULL, AT(data.paths),
     AT(data.n_path),
     "Files to read: paths, folders (all files below) or patterns such as **/*.txt. A relative "
     "path is resolved in the run file's folder if its first component exists there, else in the "
     "current folder.",
     NULL},
    {"data", "blend", PST_ROW_LIST, NULL, 0, 0, 0, NULL, AT(data.blend), AT(data.n_blend),
     "Weights of the paths, one for each, such as [0.7, 0.3]: training samples are mixed in this "
     "proportion, and each path has its own order, epochs and validation split. Empty: all paths "
     "are one sequence.",
     NULL},
    TEXT(data, tokenizer, "byte", PATH, NULL,
         "Tokenizer. byte: one token per byte. Else, for text: a folder with, or one of, the files "
         "tokenizer.json, vocab.json (with merges.txt), encoder.json (with vocab.bpe), *.tiktoken, "
         "*.model (SentencePiece) and vocab.txt; the text is encoded once, into the cache, and "
         "files are separated by the "
         "token that ends a document. For tokens: the tokenizer that made them, which bert and "
         "isolate need; byte: unknown, or bytes if model.vocabulary is 256."),
    TEXT(data, template, "chatml", 0, "chatml|llama3|qwen",
         "How a conversation becomes text: the chat template of ChatML, Llama 3 or Qwen 2.5. The "
         "tokenizer must have its special tokens."),
    TEXT(data, isolate, "false", 0, "true|false",
         "true: each document in a sample is trained as if it were alone: positions count from its "
         "beginning, and attention does not reach beyond it. Documents end with the tokenizer's "
         "token for that, such as <|endoftext|>. gpt and llama, on CPUs only."),
    TEXT(data, mask, "tokens", 0, "tokens|words",
         "What bert masks. tokens: single tokens; words: all tokens of a word together (whole-word "
         "masking), which needs a WordPiece vocabulary, whose ##tokens continue a word."),
    TEXT(data, field, "text", 0, NULL,
         "Field with the text in files of JSON Lines (*.jsonl, *.jsonl.gz, *.jsonl.zst), whose "
         "lines are documents; with labels also the column of CSV."),
    TEXT(data, label, "label", 0, NULL,
         "Field of JSON Lines, or column of CSV, with the label: a name, or a number from 0 on."),
    TEXT(data, on_error, "stop", 0, "stop|skip",
         "What happens if a line of JSON Lines is not JSON, has no text in the field, or is no "
         "conversation (chat), a line of CSV has too few or too many fields, or a label is empty. "
         "stop: the run is refused, with file and line; skip: such lines are left out, and "
         "counted."),
    TEXT(data, cache, "", PATH, NULL,
         "Folder for text that was encoded with a tokenizer; by default penstock/tokens in "
         "$XDG_CACHE_HOME or ~/.cache."),
    REAL(data, validation, "0.1", 0, 1, BELOW,
         "Fraction of the data that is held out for validation."),

    WHOLE(train, steps, "300", 1, 1e12, "Number of optimizer steps."),
    {"train", "tokens", PST_ROW_WHOLE, "0", 0, 1e18, FULL, NULL, AT(train.tokens), 0,
     "Length of the run in tokens (with resnet: images), instead of steps; 0: steps counts. "
     "(tokens=N without a section sets eval.tokens.)",
     NULL},
    REAL(train, epochs, "0", 0, 1e9, 0,
         "Length of the run in passes over the training data, instead of steps; 0: steps counts."),
    {"train", "time_limit", PST_ROW_SECONDS, "0", 0, 1e9, 0, NULL, AT(train.time_limit), 0,
     "Time in which the run saves a checkpoint and ends with status 0, such as 8h, 1h30m or 3600 "
     "(seconds); it can be resumed. Counted from the start of the ranks. 0: no limit.",
     NULL},
    WHOLE(train, batch, "32", 1, 1048576, "Samples per optimizer step."),
    WHOLE(
        train, micro_batch, "0", 0, 1048576,
        "Samples per micro-batch; if it does not divide batch, the first micro-batch of a step has "
        "fewer. 0: the largest divisor of batch that is at most 4."),
    WHOLE(train, seed, "1", 0, INFINITY, "Seed of initial weights, sample order and dropout."),
    TEXT(train, optimizer, "adamw", 0, "adamw|adam|lamb|muon|sgd",
         "The optimizer. adam: Adam with L2 regularization, whose weight decay is part of the "
         "gradient. lamb: for large batches. muon: for matrices of hidden layers, adamw for "
         "embeddings, output, norms and biases, with the same lr. lamb and muon: on GPUs without "
         "tensor ranks."),
    TEXT(train, optimizer_state, "fp32", 0, "fp32|bf16",
         "Number format in which the optimizer keeps its state. bf16: half the memory, rounded at "
         "random so that small changes are not lost."),
    REAL(train, lr, "0.0003", 0, INFINITY, ABOVE, "Peak learning rate, reached after the warmup."),
    REAL(train, lr_min, "0", 0, INFINITY, 0, "Learning rate at the end of the decay."),
    {"train", "warmup", PST_ROW_STEPS, "20", 0, 1e12, 0, NULL, AT(train.warmup_given), 0,
     "Number of steps in which the learning rate rises; a value below 1 or in per cent is a share "
     "of all steps.",
     NULL},
    TEXT(train, decay, "cosine", 0, "cosine|linear|wsd|inverse-sqrt|none",
         "Learning-rate decay after the warmup. cosine, linear: to lr_min at the last step. wsd "
         "(warm-up-stable-decay): constant, then linear to lr_min in the last decay_steps. "
         "inverse-sqrt: lr * sqrt(warmup/step), not below lr_min. none: constant."),
    {"train", "decay_steps", PST_ROW_STEPS, "20%", 0, 1e12, 0, NULL, AT(train.decay_steps_given), 0,
     "Number of last steps in which the learning rate falls; a value below 1 or in per cent is a "
     "share of all steps.",
     NULL},
    REAL(train, weight_decay, "0.1", 0, INFINITY, 0, "Weight decay (decoupled in adamw)."),
    {"train", "decay_params", PST_ROW_LIST, NULL, 0, 0, 0, NULL, AT(train.decay_params),
     AT(train.n_decay_params),
     "Parameters that weight decay applies to: patterns of their names, such as [\"*.weight\", "
     "\"!ln_*\"], where ! excludes. Empty: all but biases and those of norms.",
     NULL},
    {"train", "freeze", PST_ROW_LIST, NULL, 0, 0, 0, NULL, AT(train.freeze), AT(train.n_freeze),
     "Parameters that are not trained: patterns of their names, such as [\"wte.*\", \"h.0.*\"], "
     "where ! excludes. With adapt.on, all but those that ! excludes. They have no gradients and "
     "no optimizer state, and are not in checkpoints.",
     NULL},
    REAL(train, beta1, "0.9", 0, 1, BELOW,
         "All but sgd: decay rate of the running mean of the gradients."),
    REAL(train, beta2, "0.95", 0, 1, BELOW,
         "All but sgd: decay rate of the running mean of the squared gradients."),
    REAL(train, eps, "1e-8", 0, INFINITY, ABOVE, "All but sgd: added to the denominator."),
    REAL(train, momentum, "0.9", 0, 1, BELOW,
         "sgd, muon: momentum; 0: none. muon: 0.95 if it is not given."),
    TEXT(train, nesterov, "false", 0, "true|false", "sgd: Nesterov's momentum."),
    REAL(train, label_smoothing, "0", 0, 1, BELOW,
         "Share of the target's probability that is spread evenly over all tokens or classes, such "
         "as 0.1. Evaluations do not use it."),
    REAL(train, z_loss, "0", 0, INFINITY, 0,
         "Weight of z-loss, the squared logarithm of the sum of exp(logits), such as 1e-4, which "
         "keeps logits small. Evaluations do not use it."),
    REAL(train, clip, "1", 0, INFINITY, 0,
         "Maximum global norm of the gradients; gradients with a larger norm are scaled down to "
         "it. 0: no clipping."),
    TEXT(
        train, precision, "fp32", 0, "fp32|tf32|bf16|fp16|fp8",
        "Number format of activations and of weights in matrix products; master weights stay fp32. "
        "On CPUs bf16 needs AVX512-BF16. GPUs only: tf32 (fp32, but matrix products round their "
        "operands to TF32) and fp8 (bf16, but matrix products round their operands to 8 bits)."),
    TEXT(train, residual, "same", 0, "same|fp32",
         "Number format of the residual stream and of its gradients. same: the format of the "
         "activations; fp32: also with 16-bit activations, which needs more memory and keeps deep "
         "models closer to fp32."),
    REAL(train, loss_scale, "0", 0, 16777216, 0,
         "Factor by which the loss is multiplied and the gradients are divided again, so that "
         "small gradients do not vanish; 0: dynamic in fp16, else 1."),
    REAL(train, loss_scale_start, "65536", 1, 16777216, 0, "Dynamic loss scale: initial value."),
    WHOLE(train, loss_scale_interval, "2000", 1, 1e12,
          "Dynamic loss scale: number of consecutive steps without overflow after which the scale "
          "doubles."),
    REAL(train, loss_scale_backoff, "0.5", 0, 1, ABOVE | BELOW,
         "Dynamic loss scale: factor after an overflow; the step that overflows is skipped."),
    TEXT(train, non_finite, "stop", 0, "stop|skip",
         "What to do when a loss or gradient is not finite; such a step is never applied. stop: "
         "end the run; skip: continue with the next batch (exit status 2 if no step was applied)."),
    TEXT(
        train, spike, "off", 0, "off|warn|skip|rewind",
        "What to do when loss or gradient norm is far above those of the last 64 steps. warn: a "
        "warning; skip: the step is not applied; rewind: back to the last checkpoint, then on with "
        "the data behind the spike (skip, if there is no checkpoint)."),
    REAL(train, spike_factor, "6", 0, INFINITY, ABOVE,
         "Standard deviations above the mean of the last 64 steps that make a spike."),
    REAL(train, hang_factor, "10", 1, 1000, 0,
         "A rank counts as hung if an instruction takes more than this many times its expected "
         "duration ..."),
    REAL(train, hang_slack, "1", 0, 3600, 0,
         "... plus this many seconds; 0: hangs are not detected."),
    WHOLE(train, log_every, "10", 1, 1e12,
          "Steps between progress lines if the output is not a terminal."),
    {"train.batch_warmup", "from", PST_ROW_WHOLE, "0", 0, 1048576, FULL, NULL,
     AT(train.batch_warmup.from), 0,
     "Samples of the first steps, a divisor of batch: steps then grow to batch by multiples of it. "
     "0: all steps have batch samples.",
     NULL},
    {"train.batch_warmup", "tokens", PST_ROW_WHOLE, "0", 0, 1e17, FULL, NULL,
     AT(train.batch_warmup.tokens), 0,
     "Tokens (with resnet: images) over which the steps grow from batch_warmup.from to batch "
     "samples.",
     NULL},

    {"adapt", "on", PST_ROW_LIST, NULL, 0, 0, FULL, NULL, AT(adapt.on), AT(adapt.n_on),
     "Linear layers that get an adapter of low rank (LoRA), which is trained instead of the model: "
     "attention, mlp, or patterns of the names of weights, such as [\"h.*.attn.c_attn.weight\"]. "
     "Empty: no adapters.",
     NULL},
    {"adapt", "rank", PST_ROW_WHOLE, "8", 1, 65536, FULL, NULL, AT(adapt.rank), 0,
     "Rank of the adapters.", NULL},
    {"adapt", "alpha", PST_ROW_REAL, "16", 0, INFINITY, ABOVE | FULL, NULL, AT(adapt.alpha), 0,
     "The product of an adapter's matrices is multiplied by alpha/rank.", NULL},

    {"eval", "every", PST_ROW_WHOLE, "0", 0, 1e12, FULL, NULL, AT(eval.every), 0,
     "Steps between evaluations; 0: only at the end. (every=N without a section sets "
     "checkpoint.every.)",
     "train.validate_every"},
    {"eval", "tokens", PST_ROW_WHOLE, "32768", 0, 1e9, 0, "all", AT(eval.tokens), 0,
     "Tokens per evaluation (with resnet: images). The samples are spread evenly over the "
     "validation split and are the same each time. all or 0: the whole split.",
     NULL},
    {"eval", "sets", PST_ROW_NAMED, NULL, 0, 0, FULL | PATH, NULL, AT(eval.sets), AT(eval.n_sets),
     "More files to evaluate on, as named sets, each with its own loss; they are not used for "
     "training. On the command line: eval.sets.NAME=PATH.",
     NULL},

    WHOLE(stop, patience, "0", 0, 1e9,
          "Number of evaluations in a row without a new lowest validation loss (checkpoint.best) "
          "after which the run ends; 0: it does not end early."),

    WHOLE(parallel, pipeline, "0", 0, PST_RANKS_MAX,
          "Number of pipeline stages; 0: the number of ranks, divided by tensor and data."),
    {"parallel", "tensor", PST_ROW_WHOLES, "0", 0, PST_RANKS_MAX, FILLED, NULL,
     AT(parallel.tensors), AT(parallel.n_tensors),
     "Tensor ranks per stage, which split every layer (heads, hidden features, vocabulary); 0 "
     "means 1. A list sets them for each stage, such as [2, 1].",
     NULL},
    TEXT(parallel, sequence, "false", 0, "true|false",
         "With tensor ranks: also split the activations between the tensor-parallel layers by "
         "position (sequence parallelism). Needs less memory."),
    WHOLE(parallel, data, "0", 0, PST_PLANNED_RANKS_MAX,
          "Replicas of the pipeline (data parallelism); each takes a part of a step's "
          "micro-batches. 0 means 1."),
    WHOLE(parallel, zero, "1", 0, 2,
          "What replicas shard (ZeRO stage). 0: nothing, the default with update: delayed; 1: "
          "optimizer state and update; 2: gradients as well, which are then reduced after every "
          "micro-batch."),
    {"parallel", "replicas", PST_ROW_LIST, NULL, 0, 0, 0, NULL, AT(parallel.replicas),
     AT(parallel.n_replicas),
     "Micro-batches of a step for each replica, such as [3, 5]; by default equal, or in proportion "
     "to the speeds that cluster or throttle gives.",
     NULL},
    {"parallel", "throttle", PST_ROW_LIST, NULL, 0, 0, 0, NULL, AT(parallel.throttle),
     AT(parallel.n_throttle),
     "Slow down processes to imitate unequal devices: one factor per process, such as [1, 2], or "
     "one for all. CPUs only.",
     NULL},
    {"parallel", "devices", PST_ROW_LIST, NULL, 0, 0, 0, NULL, AT(parallel.devices),
     AT(parallel.n_devices),
     "The device of each rank, such as [2, 0, 1]: the index of the device in cluster or, without "
     "cluster, in launch order; by default rank r uses device r.",
     NULL},
    WHOLE(parallel, threads, "0", 0, 4096,
          "CPU threads per rank; 0: the cores divided by the ranks, at least 1."),
    TEXT(parallel, schedule, "1f1b", FILLED, NULL,
         "Order of forward and backward passes: gpipe, 1f1b, 1f1b-early, interleaved, zb-h1, "
         "zb-h2, zb-v, v-half, v-min, dualpipev; custom: read from schedule_file; solved: computed "
         "by a solver for this run."),
    TEXT(parallel, schedule_file, "", PATH, NULL,
         "Schedule for custom: CSV as PyTorch's pipelining runtime reads it, one line per rank "
         "with actions such as 0F0, 1I3, 1W3."),
    TEXT(parallel, cluster, "", PATH, NULL,
         "The devices and the links between them: a cluster file, or one line such as \"2x8 h100 "
         "ib:400Gb/s\"; empty: equal devices, except for throttle."),
    TEXT(parallel, plan, "", PATH, NULL,
         "Plan file of penstock plan, which sets layout, micro_batch, schedule, cut, recomputation "
         "and zero. auto: search for a plan when the run starts; what the run file sets stays "
         "fixed."),
    TEXT(parallel, profile, "", PATH, NULL,
         "Profile of this machine, measured by penstock profile; predictions use it."),
    TEXT(parallel, profile_force, "false", 0, "true|false",
         "Use the profile even if it was measured with another model, machine, precision or "
         "optimizer; missing durations are estimated."),
    TEXT(parallel, measured, "", PATH, NULL,
         "Folder of a run of this model with this micro_batch; predictions use the operator "
         "durations measured in that run."),
    WHOLE(parallel, chunks, "0", 0, 64,
          "Number of chunks per rank; 0: the schedule's default (interleaved: 2; solved: the best "
          "of 1 to 4)."),
    {"parallel", "recompute", PST_ROW_LIST, "none", 1, 0xffffff, FILLED,
     "none|selective|full|{full: N}", AT(parallel.recompute), AT(parallel.n_recompute),
     "What the backward pass recomputes instead of keeping in memory. selective: cheap operators "
     "(attention, norms, activation functions); full: everything except a chunk's inputs; {full: "
     "N}: the first N layers of each chunk, one layer at a time, from their stored inputs; {full: "
     "auto}: as few layers as memory asks for, chosen by the planner; or a list with one of these "
     "per chunk.",
     NULL},
    TEXT(parallel, post_validation, "false", 0, "true|false",
         "Optimizer steps do not wait for the norm of all gradients. If the norm then requires a "
         "different update (clipping) or none (norm not finite), the rank rolls back its update "
         "and repeats it where needed; the bits stay the same."),
    TEXT(parallel, device, "auto", FILLED, NULL,
         "auto, cpu, cuda (needs the accelerator module), or timed (computes nothing and waits for "
         "the predicted durations)."),
    TEXT(parallel, transport, "auto", 0, "auto|self|ucx|nccl",
         "How ranks exchange messages. self: all ranks in one process; ucx: between processes; "
         "nccl: between GPUs, with one rank per GPU."),
    TEXT(parallel, gradients, "fp32", 0, "fp32|bf16",
         "Number format in which replicas send gradients; they are always added in fp32. bf16: "
         "half the bytes, and each gradient is rounded once; CPUs only."),
    TEXT(parallel, exchange, "auto", FULL, "auto|flat|two-level",
         "How replicas on several hosts exchange gradients and weights. flat: each sends its part "
         "to each owner; two-level: the replicas of a host add their gradients first, and one part "
         "leaves the host; new weights enter it once. The bits are the same. auto: two-level, if "
         "2, 4, 8, ... adjacent replicas of every stage are on one host and, by the links of "
         "parallel.cluster, the exchange gets shorter (up to 64 ranks: the simulated step); else "
         "flat."),
    TEXT(parallel, collectives, "exact", 0, "exact|fast",
         "How tensor ranks sum over nccl (GPUs only). exact: in fp32 in rank order, with the same "
         "bits in every run. fast: NCCL's all-reduce and reduce-scatter, whose bits can differ."),
    TEXT(parallel, products, "measured", 0, "library|measured",
         "Which algorithm computes each matrix product on a GPU. measured: the fastest of "
         "cuBLASLt's candidates, measured when the run starts; plan.yaml keeps it, so that a run "
         "with that plan and a resumed run have the same bits. library: cuBLASLt's first "
         "candidate."),
    TEXT(parallel, deterministic, "true", 0, "true|false",
         "false: attention's backward pass on a GPU may add in any order. That is faster and needs "
         "less memory, but the bits differ from run to run."),
    TEXT(parallel, graphs, "true", 0, "true|false",
         "Capture operators that run again with the same arguments in CUDA graphs (GPUs only). "
         "Saves host time; the bits stay the same."),
    {"parallel", "memory", PST_ROW_BYTES, "0", 0, 0x1p60, 0, NULL, AT(parallel.memory), 0,
     "Memory that each rank may use, such as 512M or 8G; 0: limited only by the machine.", NULL},
    TEXT(parallel, bind, "auto", 0, "auto|none|core",
         "Bind each rank to its own cores. auto: if the host has several NUMA nodes (memory is "
         "bound as well); none: never; core: always."),
    WHOLE(parallel, wait, "60", 1, 86400,
          "Seconds to wait for all ranks to join if they are started from a host file or one by "
          "one."),
    TEXT(parallel, servers, "0", FULL, NULL,
         "Number of ranks that compute no passes: parameter servers, which add gradients, update "
         "weights and send them back, as owners of zero 1 do. A multiple of stages x tensor ranks; "
         "they are started in addition to those of all replicas. auto: all further ranks."),
    TEXT(parallel, update, "sync", FULL, "sync|delayed|bounded|async",
         "When the gradients of a step change the weights. sync: at the end of this step; delayed: "
         "`staleness` steps later, so that replicas exchange them while later passes run. A step "
         "then takes as long as the longer of the two, but gradients are of older weights. async: "
         "servers apply the gradients of each replica when they arrive, and no replica waits for "
         "another; bounded: likewise, but none is more than `staleness` steps ahead of the "
         "slowest. async and bounded: CPUs only."),
    {"parallel", "staleness", PST_ROW_WHOLE, "1", 1, 1000, FULL, NULL, AT(parallel.staleness), 0,
     "With update: delayed, the number of steps between a gradient and its update. Each needs "
     "memory for all gradients. With bounded, how many steps the fastest replica may be ahead of "
     "the slowest.",
     NULL},
    {"parallel.compress", "up", PST_ROW_TEXT, "none", 0, 0, FULL,
     "none|int8|int4|2bit|topk|powersgd|bf16", AT(parallel.compress.up), 0,
     "Codec with which replicas pack the gradients that they send. int8, int4: a whole number per "
     "element and a scale per block, a quarter or an eighth of the bytes; 2bit: plus or minus a "
     "value, or 0; topk: the largest elements of each block; powersgd: each replica's gradient as "
     "a product of two thin matrices; bf16: half of the bytes. What is left out is added to the "
     "next step's gradient. topk and powersgd: CPUs only.",
     NULL},
    {"parallel.compress", "down", PST_ROW_TEXT, "none", 0, 0, FULL, "none|int8|int4|bf16",
     AT(parallel.compress.down), 0,
     "Codec with which owners pack the changes of weights that they send to the other replicas "
     "(zero: 1, fp32). Operators, also those of evaluations, read the copy to which the changes "
     "are "
     "added, which is equal on all replicas; what is left out is part of the next change.",
     NULL},
    {"parallel.compress", "stages", PST_ROW_TEXT, "none", 0, 0, FULL, "none|int8|bf16",
     AT(parallel.compress.stages), 0,
     "Codec with which stages pack the activations, and the gradients of these, that they send to "
     "other stages (fp32). The receiver computes with what it unpacks; what is left out is lost, "
     "so results depend on where the model is cut. Evaluations pack nothing.",
     NULL},
    {"parallel.compress", "block", PST_ROW_WHOLE, "0", 0, 4096, FULL, NULL,
     AT(parallel.compress.block), 0,
     "Elements that share a scale or a threshold, or of which the largest are sent, a power of two "
     "from 32 to 4096; 0: 256, for int4 128, for topk 1024.",
     NULL},
    {"parallel.compress", "threshold", PST_ROW_REAL, "auto", 0, 1e6, FULL, "auto",
     AT(parallel.compress.threshold), 0,
     "2bit: what is sent of elements that are at least as large, in units of the gradient of the "
     "step's mean loss. auto: each block's own value, the mean of its magnitudes above their mean, "
     "is sent of elements that are at least half as large.",
     NULL},
    {"parallel.compress", "rate", PST_ROW_REAL, "0.01", 0, 0.5, FULL | ABOVE, NULL,
     AT(parallel.compress.rate), 0, "topk: the share of the elements of a block that is sent.",
     NULL},
    {"parallel.compress", "rank", PST_ROW_WHOLE, "4", 1, 64, FULL, NULL, AT(parallel.compress.rank),
     0, "powersgd: columns of the two matrices.", NULL},
    {"parallel.compress", "min_rate", PST_ROW_REAL, "2", 1, 1e6, FULL, NULL,
     AT(parallel.compress.min_rate), 0,
     "powersgd: what would not get at least this many times smaller is sent in fp32.", NULL},
    {"parallel.compress", "warm_start", PST_ROW_TEXT, "true", 0, 0, FULL, "true|false",
     AT(parallel.compress.warm_start), 0,
     "powersgd: true: power iterations begin with the matrix Q of the last step. false: with a "
     "fixed "
     "one; less memory.",
     NULL},
    {"parallel.compress", "iterations", PST_ROW_WHOLE, "2", 1, 16, FULL, NULL,
     AT(parallel.compress.iterations), 0,
     "powersgd: power iterations; each reads the gradient twice.", NULL},
    {"parallel.compress", "after", PST_ROW_WHOLE, "0", 0, 1e12, FULL, NULL,
     AT(parallel.compress.after), 0, "Steps of the run before anything is packed.", NULL},
    {"parallel.compress", "warmup", PST_ROW_WHOLE, "0", 0, 1e12, FULL, NULL,
     AT(parallel.compress.warmup), 0,
     "topk: steps in which more is sent, from step `after` on: in equal parts of them a share of "
     "1/4, 1/16, ..., as long as that is more than rate.",
     NULL},
    {"parallel.compress", "moments", PST_ROW_TEXT, "auto", 0, 0, FULL, "auto|replica|owner",
     AT(parallel.compress.moments), 0,
     "topk: who has AdamW's second moments. replica: each replica divides its own gradient by the "
     "root of its own second moments, and selects and sends parts of that step; train.beta1 is "
     "not used, because what is left out already adds up over steps. owner: gradients are sent, "
     "and the optimizer sees only what arrives. auto: replica with train.optimizer adamw, else "
     "owner.",
     NULL},
    {"parallel.compress", "min_bytes", PST_ROW_BYTES, "64K", 0, 0x1p60, FULL, NULL,
     AT(parallel.compress.min_bytes), 0, "Parameters with fewer bytes (in fp32) are not packed.",
     NULL},
    {"parallel.compress", "links", PST_ROW_TEXT, "between-hosts", 0, 0, FULL, "between-hosts|all",
     AT(parallel.compress.links), 0,
     "Which messages are packed. between-hosts: those of replicas that are not all on one host, "
     "and those between stages on different hosts; all: those of all replicas and stages.",
     NULL},
    {"parallel.local", "steps", PST_ROW_WHOLE, "0", 0, 1e12, FULL, NULL, AT(parallel.local.steps),
     0,
     "Steps that each island takes without the others, with optimizer state, clipping and weights "
     "of its own (local SGD, DiLoCo), for slow links. Then the mean of what they have subtracted "
     "from the weights is the gradient of an outer SGD step, whose result all get. The last step "
     "of the run is followed by one too. CPUs only. 0: gradients are added in every step.",
     NULL},
    {"parallel.local", "islands", PST_ROW_WHOLE, "0", 0, PST_RANKS_MAX, FULL, NULL,
     AT(parallel.local.islands), 0,
     "Number of islands, which divides parallel.data: the replicas of an island add gradients in "
     "every step. Replicas with consecutive numbers are an island. 0: each replica is one.",
     NULL},
    {"parallel.local", "fragments", PST_ROW_WHOLE, "1", 1, 64, FULL, NULL,
     AT(parallel.local.fragments), 0,
     "Number of fragments of the model, of about equal size, that islands exchange one after "
     "another, each after as many steps as parallel.local.steps (Streaming DiLoCo).",
     NULL},
    {"parallel.local", "delay", PST_ROW_WHOLE, "0", 0, 64, FULL, NULL, AT(parallel.local.delay), 0,
     "Steps that an exchange between islands takes: it goes on while these compute, and its result "
     "is applied that many steps after the weights were sent. Fewer than steps / fragments. 0: "
     "islands wait for the exchange.",
     NULL},
    {"parallel.local", "alpha", PST_ROW_REAL, "0", 0, 1, FULL | BELOW, NULL,
     AT(parallel.local.alpha), 0,
     "With parallel.local.delay: share of an island's own weights in the weights that it goes on "
     "with when the result is applied. 0: it takes the result.",
     NULL},
    {"parallel.local", "compress", PST_ROW_TEXT, "none", 0, 0, FULL, "none|int8|int4|bf16",
     AT(parallel.local.compress), 0,
     "Codec with which islands pack the differences between their weights and the common ones that "
     "they send for an outer step. What is left out is added to the next difference. New weights "
     "come back in fp32. Without parallel.local.delay.",
     NULL},
    {"parallel.local.outer", "lr", PST_ROW_REAL, "0.7", 0, INFINITY, FULL | ABOVE, NULL,
     AT(parallel.local.outer.lr), 0,
     "Learning rate of the outer step; 1 without momentum: the mean of the weights.", NULL},
    {"parallel.local.outer", "momentum", PST_ROW_REAL, "0.9", 0, 1, FULL | BELOW, NULL,
     AT(parallel.local.outer.momentum), 0, "Momentum of the outer step; 0: none.", NULL},
    {"parallel.local.outer", "nesterov", PST_ROW_TEXT, "true", 0, 0, FULL, "true|false",
     AT(parallel.local.outer.nesterov), 0, "Nesterov's momentum in the outer step.", NULL},
    {"parallel.reproducible", "data", PST_ROW_WHOLE, "0", 0, PST_RANKS_MAX, FULL, NULL,
     AT(parallel.reproducible), 0,
     "Sum the gradients of a step's micro-batches in this many groups, a power of two such as 4: "
     "then 1, 2 and 4 replicas give the same bits, but need more memory. 0: off.",
     "parallel.reproducible"},
    {"parallel.reproducible", "tensor", PST_ROW_WHOLE, "0", 0, PST_RANKS_MAX, FULL, NULL,
     AT(parallel.reproducible_tensor), 0,
     "Sum what tensor ranks split (heads, hidden features, vocabulary, positions) in this many "
     "blocks, a power of two such as 4: then 1, 2 and 4 tensor ranks, with and without sequence, "
     "give the same bits. CPUs only. 0: off.",
     NULL},

    WHOLE(checkpoint, every, "100", 0, 1e12,
          "Steps between checkpoints; 0: only at the end. A checkpoint is also written at each new "
          "lowest validation loss (checkpoint.best)."),
    WHOLE(checkpoint, keep, "3", 1, 1000000,
          "Number of newest checkpoints to keep; the checkpoint with the lowest validation loss "
          "(checkpoint.best) is kept as well."),
    WHOLE(checkpoint, keep_every, "0", 0, 1e12,
          "Steps between checkpoints that are kept for ever; 0: none."),
    TEXT(checkpoint, best, "validation", 0, NULL,
         "The evaluation by which the best checkpoint is chosen, and that stop.patience watches: "
         "validation, or a name of eval.sets."),
    TEXT(checkpoint, metric, "loss", 0, "loss|accuracy",
         "What of that evaluation is compared. accuracy: the highest one is the best; for models "
         "that give labels (model.task classification) or answers (model.next_sentence)."),

    WHOLE(elastic, min, "0", 0, PST_RANKS_MAX,
          "Go on when a rank dies, as long as at least this many ranks are left; 0: the run ends. "
          "Train's option elastic means 1."),
    WHOLE(elastic, max, "0", 0, PST_RANKS_MAX,
          "With elastic.min: the most ranks that the run may have; 0: no limit."),
    WHOLE(elastic, spare, "0", 0, PST_RANKS_MAX,
          "With elastic.min: processes that are started in addition, and wait until they take the "
          "place of a rank that dies."),

    WHOLE(log, trace, "0", 0, 1e12,
          "Step whose timeline is written, at most the last step; 0: the last but one."),
    TEXT(log, level, "info", 0, "error|warn|info|debug", "Which messages are written to stderr."),
};
const pst_row *pst_rows = rows;
size_t pst_n_row = sizeof rows / sizeof *rows;
_Static_assert(sizeof rows / sizeof *rows <= PST_ROWS_MAX, "raise PST_ROWS_MAX");

const char *pst_row_name(const pst_row *row, char out[PST_ROW_TEXT_BYTES]) {
    snprintf(out, PST_ROW_TEXT_BYTES, "%s%s%s", row->section, *row->section ? "." : "", row->key);
    return out;
}
