/* The table of all keys of a run file. Everything else (reading, overrides, defaults, ranges, help,
 * the resolved copy, "did you mean") follows from it: a new option is one row here and one member
 * in config.h. Rows of a section, those of the sections in it included, stand together. */
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
     "Names the run's folder; by default the run file's name without its ending.", NULL},

    TEXT(model, kind, NULL, REQUIRED, "gpt|bert|mlp|resnet|custom",
         "The family of the model; custom: a graph that a program builds through the library."),
    TEXT(model, preset, "", 0, NULL, "A named size of that family; the keys below change it."),
    TEXT(model, weights, "", PATH, NULL,
         "A safetensors file (Hugging Face GPT-2, with the data's tokens) to start from; empty: "
         "random weights."),
    TEXT(model, activation, "gelu_tanh", 0, "gelu_tanh|gelu_erf|relu",
         "The nonlinearity (bert: always gelu_erf)."),
    WHOLE(model, layers, "0", 0, 10000, "Layers; 0: as the preset says."),
    WHOLE(model, heads, "0", 0, 4096, "Attention heads; 0: as the preset says."),
    WHOLE(model, channels, "0", 0, 1048576, "Channels (the width); 0: as the preset says."),
    WHOLE(model, context, "0", 0, 1048576, "Tokens per sample; 0: as the preset says."),
    WHOLE(model, vocabulary, "0", 0, 16777216,
          "Distinct tokens, or classes of images; 0: as the preset or the data says."),
    WHOLE(model, image, "0", 0, 65536, "resnet: pixels of an image's side; 0: as the data says."),
    REAL(model, dropout, "0", 0, 1, BELOW, "Share of activations dropped while training."),

    TEXT(data, kind, "text", 0, "text|lines|mnist|cifar10|custom",
         "What the files hold: text to go on with, lines of it to fill in (bert), or images as "
         "MNIST (idx) or CIFAR-10 "
         "(binary) has them; custom: no files, a program feeds data through the library."),
    {"data", "paths", PST_ROW_LIST, NULL, 0, 0, REQUIRED | FILLED | PATH, NULL, AT(data.paths),
     AT(data.n_path),
     "Files to read: paths, folders (every file below) or patterns, ** included, relative to the "
     "run file's folder "
     "where their first name stands there, else to the current one.",
     NULL},
    TEXT(data, tokenizer, "byte", 0, "byte", "How text becomes tokens."),
    REAL(data, validation, "0.1", 0, 1, BELOW, "Share of the data held back for validation."),

    WHOLE(train, steps, "300", 1, 1e12, "Optimizer steps."),
    WHOLE(train, batch, "32", 1, 1048576, "Samples per optimizer step."),
    WHOLE(train, micro_batch, "0", 0, 1048576,
          "Samples per micro-batch; 0: the largest divisor of batch up to 4."),
    WHOLE(train, seed, "1", 0, INFINITY, "Seed of weights, order of samples and dropout."),
    TEXT(train, optimizer, "adamw", 0, "adamw|sgd", "The rule that updates the weights."),
    REAL(train, lr, "0.0003", 0, INFINITY, ABOVE,
         "Highest learning rate, reached after the warm-up."),
    REAL(train, lr_min, "0", 0, INFINITY, 0, "Learning rate at which the decay ends."),
    {"train", "warmup", PST_ROW_STEPS, "20", 0, 1e12, 0, NULL, AT(train.warmup_given), 0,
     "Steps in which the learning rate rises, at most all; below 1 or in per cent: a share of "
     "steps.",
     NULL},
    TEXT(train, decay, "cosine", 0, "cosine|linear|none",
         "How the learning rate falls after the warm-up."),
    REAL(train, weight_decay, "0.1", 0, INFINITY, 0, "Weight decay (decoupled in adamw)."),
    REAL(train, beta1, "0.9", 0, 1, BELOW, "adamw: decay of the mean of gradients."),
    REAL(train, beta2, "0.95", 0, 1, BELOW, "adamw: decay of the mean of their squares."),
    REAL(train, eps, "1e-8", 0, INFINITY, ABOVE, "adamw: added to the denominator."),
    REAL(train, momentum, "0.9", 0, 1, BELOW, "sgd: momentum; 0: none."),
    REAL(train, clip, "1", 0, INFINITY, 0,
         "Largest norm of all gradients together; 0: no clipping."),
    TEXT(train, precision, "fp32", 0, "fp32|tf32|bf16|fp16|fp8",
         "Element type of activations and of weights in products; bf16 needs AVX512-BF16 (master "
         "weights stay fp32). "
         "GPUs only: tf32 (fp32, products round what they multiply), fp8 (bf16, products have "
         "8-bit factors)."),
    TEXT(train, residual, "same", 0, "same|fp32",
         "Element type of the residual stream and of its gradients: same as activations, or fp32 "
         "beside 16-bit activations, which costs memory and keeps a deep model nearer to fp32."),
    REAL(train, loss_scale, "0", 0, 16777216, 0,
         "Multiplies the loss, and is taken out of the gradients again, so that small ones are not "
         "lost; 0: dynamic in "
         "fp16, else 1."),
    REAL(train, loss_scale_start, "65536", 1, 16777216, 0, "Dynamic loss scale: the first one."),
    WHOLE(train, loss_scale_interval, "2000", 1, 1e12,
          "Dynamic loss scale: steps in a row without overflow after which it is doubled."),
    REAL(train, loss_scale_backoff, "0.5", 0, 1, ABOVE | BELOW,
         "Dynamic loss scale: multiplies it when a step overflows, which is skipped."),
    TEXT(train, non_finite, "stop", 0, "stop|skip",
         "When a loss or gradient is not finite, which no step ever applies: end the run, or go on "
         "with the next "
         "batch (status 2 when no step was applied)."),
    REAL(train, hang_factor, "10", 1, 1000, 0,
         "A rank hangs when an instruction lasts this many times as long as expected..."),
    REAL(train, hang_slack, "1", 0, 3600, 0,
         "... and this many seconds more; 0: hangs are not looked for."),
    WHOLE(train, log_every, "10", 1, 1e12, "Steps between lines on a stream that is no terminal."),

    {"eval", "every", PST_ROW_WHOLE, "0", 0, 1e12, FULL, NULL, AT(eval.every), 0,
     "Steps between evaluations; 0: only at the end. (every=N without a section is "
     "checkpoint.every.)",
     "train.validate_every"},
    {"eval", "tokens", PST_ROW_WHOLE, "32768", 0, 1e9, 0, "all", AT(eval.tokens), 0,
     "Tokens of an evaluation (images with resnet): samples spread evenly over the validation "
     "split, the same ones "
     "each time; all, or 0: the whole split.",
     NULL},
    {"eval", "sets", PST_ROW_NAMED, NULL, 0, 0, FULL | PATH, NULL, AT(eval.sets), AT(eval.n_sets),
     "More texts (or lines, images) to evaluate on, by name: files that are not trained on, with a "
     "loss of their own "
     "each. "
     "On the command line also eval.sets.NAME=PATH.",
     NULL},

    WHOLE(parallel, pipeline, "0", 0, PST_RANKS_MAX,
          "Pipeline stages (ranks in a row); 0: what the number of ranks leaves."),
    {"parallel", "tensor", PST_ROW_WHOLES, "0", 0, PST_RANKS_MAX, FILLED, NULL,
     AT(parallel.tensors), AT(parallel.n_tensors),
     "Ranks that share every layer of a stage (heads, hidden features, vocabulary); 0: 1; or a "
     "list with those of each "
     "stage, such as [2, 1].",
     NULL},
    TEXT(parallel, sequence, "false", 0, "true|false",
         "With tensor ranks: each has a part of the positions of what lies between split layers; "
         "less memory."),
    WHOLE(parallel, data, "0", 0, PST_RANKS_MAX,
          "Replicas of the pipeline, each with its part of the micro-batches of a step; 0: 1."),
    WHOLE(parallel, zero, "1", 0, 2,
          "With replicas, what they share out: 0: nothing; 1: optimizer state and the step; 2: "
          "gradients, too, which "
          "then "
          "are exchanged after every micro-batch."),
    {"parallel", "replicas", PST_ROW_LIST, NULL, 0, 0, 0, NULL, AT(parallel.replicas),
     AT(parallel.n_replicas),
     "Micro-batches that each replica takes of a step, such as [3, 5]; by default as many, or by "
     "the speeds that "
     "cluster or throttle give.",
     NULL},
    WHOLE(parallel, reproducible, "0", 0, PST_RANKS_MAX,
          "Parts of a step's micro-batches with an accumulator each, a power of two, such as 4: "
          "then 1, 2 and 4 "
          "replicas give the same bits; 0: off."),
    {"parallel", "throttle", PST_ROW_LIST, NULL, 0, 0, 0, NULL, AT(parallel.throttle),
     AT(parallel.n_throttle),
     "Makes processes slower, to try out unequal devices: each one's factor, such as [1, 2], or "
     "one for all. Not on "
     "GPUs.",
     NULL},
    {"parallel", "devices", PST_ROW_LIST, NULL, 0, 0, 0, NULL, AT(parallel.devices),
     AT(parallel.n_devices),
     "Which device (of cluster, or of the processes as they are launched) each rank of the layout "
     "has, such as "
     "[2, 0, 1]; by default rank r has device r.",
     NULL},
    WHOLE(parallel, threads, "0", 0, 4096,
          "CPU threads per rank; 0: cores shared out, at least 1."),
    TEXT(parallel, schedule, "1f1b", FILLED, NULL,
         "Order of forward and backward passes: gpipe, 1f1b, 1f1b-early, interleaved, zb-h1, "
         "zb-h2, zb-v, v-half, "
         "v-min, dualpipev; custom: that of schedule_file; solved: the best found."),
    TEXT(parallel, schedule_file, "", PATH, NULL,
         "For schedule custom: CSV as PyTorch's pipelining runtime has it (0F0, 1I3, 1W3), a line "
         "per rank."),
    TEXT(parallel, cluster, "", PATH, NULL,
         "A file with the devices that ranks run on and the links between them, or that in a line, "
         "such as \"2x8 h100 "
         "ib:400Gb/s\"; empty: all alike, but for throttle."),
    TEXT(parallel, plan, "", PATH, NULL,
         "A plan of penstock plan: layout, micro_batch, schedule, cut, recomputation and zero are "
         "as it says; auto: one "
         "that is found when the run starts, for the ranks it has, with what the run file gives of "
         "these."),
    TEXT(parallel, profile, "", PATH, NULL,
         "What penstock profile has measured on this machine: predictions come from that."),
    TEXT(parallel, profile_force, "false", 0, "true|false",
         "Predict from a profile of another model, machine, precision or optimizer, too; what it "
         "lacks is modelled."),
    TEXT(parallel, measured, "", PATH, NULL,
         "Folder of a run of this model and micro_batch: its operators' measured durations replace "
         "the modelled ones."),
    WHOLE(parallel, chunks, "0", 0, 64,
          "Parts of the model on each rank; 0: as the schedule has them (interleaved: 2; solved: "
          "the best of 1 to 4)."),
    {"parallel", "recompute", PST_ROW_LIST, "none", 0, 0, FILLED, "none|selective|full",
     AT(parallel.recompute), AT(parallel.n_recompute),
     "What the backward pass computes again instead of keeping it: none, selective (what is cheap: "
     "attention, norms, "
     "activation functions), full (all but a chunk's inputs); or a list of these, one for each "
     "chunk.",
     NULL},
    TEXT(parallel, post_validation, "false", 0, "true|false",
         "Optimizer steps do not wait for the norm of all gradients; a rank that stepped wrongly "
         "goes back and steps "
         "again, with the same bits."),
    TEXT(parallel, device, "auto", FILLED, NULL,
         "auto, cpu, cuda (a module), or timed (computes nothing, takes the predicted times)."),
    TEXT(parallel, transport, "auto", 0, "auto|self|ucx|nccl",
         "How ranks exchange bytes; self: all ranks in one process; nccl: from GPU to GPU, each "
         "rank with its own."),
    TEXT(parallel, gradients, "fp32", 0, "fp32|bf16",
         "The type in which replicas send gradients to the rank that adds them in fp32. bf16: half "
         "the bytes, each gradient is rounded once; CPUs only."),
    TEXT(parallel, collectives, "exact", 0, "exact|fast",
         "How tensor ranks add over nccl. exact: in fp32 and in the order of the ranks, the same "
         "bits each time. fast: by NCCL's all-reduce and reduce-scatter, with other bits; GPUs "
         "only."),
    TEXT(parallel, products, "measured", 0, "library|measured",
         "On a GPU, which algorithm computes each matrix product. measured: the fastest of the "
         "library's proposals when the run starts, kept in plan.yaml; a run with that plan, or "
         "one that is resumed, has the same bits. library: its first proposal."),
    TEXT(parallel, deterministic, "true", 0, "true|false",
         "false: on a GPU, attention's backward pass may add in any order: faster, in less memory, "
         "with other bits in each run."),
    TEXT(parallel, graphs, "true", 0, "true|false",
         "On a GPU, operators that run again with the same arguments are captured in CUDA graphs, "
         "which takes the host "
         "less time; the bits are the same."),
    {"parallel", "memory", PST_ROW_BYTES, "0", 0, 0x1p60, 0, NULL, AT(parallel.memory), 0,
     "Bytes each rank may use, such as 512M or 8G; 0: what the machine has.", NULL},
    TEXT(parallel, bind, "auto", 0, "auto|none|core",
         "Ranks of a host on cores of their own: where it has several NUMA nodes (memory is taken "
         "there, too), never, "
         "always."),
    WHOLE(parallel, wait, "60", 1, 86400,
          "Seconds in which all ranks of a host file, or started one by one, have to arrive."),

    WHOLE(checkpoint, every, "100", 0, 1e12,
          "Steps between checkpoints; 0: at the end. A best validation writes one, too."),
    WHOLE(checkpoint, keep, "3", 1, 1000000, "Newest checkpoints to keep; the best stays, too."),

    WHOLE(log, trace, "0", 0, 1e12,
          "The step whose timeline is written, at most the last; 0: the last but one."),
    TEXT(log, level, "info", 0, "error|warn|info|debug", "How much is said on the error stream."),
};
const pst_row *pst_rows = rows;
size_t pst_n_row = sizeof rows / sizeof *rows;
_Static_assert(sizeof rows / sizeof *rows <= PST_ROWS_MAX, "raise PST_ROWS_MAX");

const char *pst_row_name(const pst_row *row, char out[PST_ROW_TEXT_BYTES]) {
    snprintf(out, PST_ROW_TEXT_BYTES, "%s%s%s", row->section, *row->section ? "." : "", row->key);
    return out;
}
