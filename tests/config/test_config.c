/* test: label=quick */
/* Run files: values and defaults, and exact complaints for wrong ones. */
#include "config/run_file.h"

#include "skip.h"
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES                                                                                      \
    "names (letters, digits, _ and -) with paths, such as {wiki: wiki.txt, code: [a.c, b.c]}"

static void defaults_and_values(void **state) {
    (void)state;
    pst_config *c = parsed(LEAST, NULL);
    assert_string_equal(c->name, "run");
    assert_string_equal(c->source, "run.yaml");
    assert_string_equal(c->model.activation, "gelu_tanh");
    assert_string_equal(c->model.weights, "");
    assert_int_equal(c->data.n_path, 1);
    assert_string_equal(c->data.paths[0], "a.txt");
    assert_int_equal(c->train.steps, 300);
    assert_int_equal(c->train.micro_batch, 4);
    assert_true(c->train.lr == 3e-4 && c->train.beta2 == 0.95 && c->train.eps == 1e-8);
    assert_true(c->eval.every == 0 && c->eval.tokens == 32768);
    assert_string_equal(c->parallel.schedule, "1f1b");
    assert_int_equal(c->parallel.pipeline, 0);
    assert_int_equal(c->checkpoint.keep, 3);
    pst_config_close(c);

    c = parsed("name: 'a b'\nmodel:\n  kind: mlp\n  layers: +3\ndata:\n  paths:\n  - x\n  - \"y "
               "z\"\n  - 12\n"
               "train: {lr: 1e-3, batch: 6, steps: 5}\nparallel: {memory: 1.5G}\nlog:\n",
               "train.seed=9223372036854775807");
    assert_string_equal(c->name, "a b");
    assert_int_equal(c->model.layers, 3);
    assert_int_equal(c->data.n_path, 3);
    assert_string_equal(c->data.paths[1], "y z");
    assert_string_equal(c->data.paths[2], "12");
    assert_int_equal(c->train.micro_batch, 3); /* the largest divisor of 6 up to 4 */
    assert_int_equal(c->train.warmup, 5);      /* not given, so at most steps */
    assert_int_equal(c->train.seed, INT64_MAX);
    assert_true(c->train.lr == 1e-3 && c->parallel.memory == 1.5 * 1073741824);
    pst_config_close(c);
}

/* The length of a run: the key that was given last counts; the copy has only that one. */
static void length(void **state) {
    (void)state;
    pst_config *c = parsed(LEAST "train: {tokens: 4096}", NULL);
    char *copy = printed(c);
    assert_int_equal(c->train.tokens, 4096);
    assert_null(strstr(copy, "\n  steps:"));
    pst_config *again = parsed(copy, "train.steps=7");
    assert_int_equal(again->train.steps, 7);
    assert_int_equal(again->train.tokens, 0);
    pst_config *epochs = parsed(copy, "epochs=1.5");
    assert_true(epochs->train.epochs == 1.5 && !epochs->train.tokens);
    pst_config_set_steps(epochs, 1000);
    assert_int_equal(epochs->train.steps, 1000);
    assert_int_equal(epochs->train.decay_steps, 200);
    pst_config_close(epochs);
    pst_config_close(again);
    pst_config_close(c);
    free(copy);
}

static void times(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double seconds;
    } cases[] = {{"0", 0},      {"90", 90},     {"90s", 90},     {"1.5m", 90},
                 {"8h", 28800}, {"2d", 172800}, {"1h30m", 5400}, {"1d2h3m4.5s", 93784.5}};
    static const char *const wrong[] = {"1h30", "30m1h", "1h1h", "1h-5m", "1h+5m", "h", "1h 5m"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char override[60];
        snprintf(override, sizeof override, "train.time_limit=%s", cases[i].text);
        pst_config *c = parsed(LEAST, override);
        assert_true(c->train.time_limit == cases[i].seconds);
        pst_config_close(c);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char override[60];
        const char *const list[] = {override};
        pst_config *c = NULL;
        snprintf(override, sizeof override, "train.time_limit=%s", wrong[i]);
        assert_int_equal(pst_config_parse(LEAST, "run.yaml", list, 1, &c), PST_EINPUT);
        assert_non_null(strstr(pst_error(), "expected a time such as 8h, 1h30m"));
    }
}

/* Steps, or a share of them; what is more than there are is cut, and kept to be said where somebody
 * gave it. */
static void warm_up(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t steps, cut;
        const char *kept; /* in the copy of a run */
    } cases[] = {
        {"train: {steps: 200, warmup: 0.05}", 10, 0, "0.05"},
        {"train: {steps: 200, warmup: 5%}", 10, 0, "0.05"},
        {"train: {steps: 200, warmup: '5%'}", 10, 0, "0.05"},
        {"train: {steps: 7, warmup: 0.5}", 4, 0, "0.5"},
        {"train: {steps: 7, warmup: 100%}", 7, 0, "100%"},
        {"train: {steps: 7, warmup: 0%}", 0, 0, "0"},
        {"train: {steps: 3, warmup: 0.1}", 0, 0, "0.1"},
        {"train: {steps: 200, warmup: 1}", 1, 0, "1"},
        {"train: {steps: 200, warmup: 0}", 0, 0, "0"},
        {"train: {steps: 5, warmup: 100}", 5, 100, "100"},
        {"train: {steps: 5, warmup: 5}", 5, 0, "5"},
        {"train: {steps: 5}", 5, 0, "20"},
        {"train: {warmup: 1000000000000}", 300, 1000000000000, "1000000000000"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200], line[80];
        snprintf(text, sizeof text, LEAST "%s", cases[i].text);
        pst_config *c = parsed(text, NULL);
        assert_int_equal(c->train.warmup, cases[i].steps);
        assert_int_equal(c->train.warmup_cut, cases[i].cut);
        char *copy = printed(c); /* what a run that goes on with more steps reads */
        snprintf(line, sizeof line, "  warmup: %s\n", cases[i].kept);
        if (!strstr(copy, line)) fail_msg("%s: the copy has no '%s'", cases[i].text, line);
        pst_config *again = parsed(copy, NULL), *longer = parsed(copy, "train.steps=400");
        pst_config *wanted = parsed(text, "train.steps=400");
        assert_int_equal(again->train.warmup, cases[i].steps);
        assert_int_equal(longer->train.warmup, wanted->train.warmup);
        pst_config_close(again);
        pst_config_close(longer);
        pst_config_close(wanted);
        free(copy);
        pst_config_close(c);
    }
}

static void overrides(void **state) {
    (void)state;
    static const char *const texts[] = {
        "lr=0.5",     "train.steps=7", "train.lr=0.25", "paths=[p, \"q, r\"]",
        "preset=a=b", "memory=512M",   "name=other"};
    pst_config *c = NULL;
    assert_int_equal(pst_config_parse(LEAST, "run.yaml", texts, sizeof texts / sizeof *texts, &c),
                     PST_OK);
    assert_true(c->train.lr == 0.25); /* the last one counts */
    assert_int_equal(c->train.steps, 7);
    assert_int_equal(c->data.n_path, 2);
    assert_string_equal(c->data.paths[1], "q, r");
    assert_string_equal(c->model.preset, "a=b");
    assert_true(c->parallel.memory == 512 * 1048576.0);
    assert_string_equal(c->name, "other");
    pst_config_close(c);
}

/* Named lists: an override replaces or adds a name, or all of them; what is printed reads back. */
static void named_lists(void **state) {
    (void)state;
    static const char yaml[] = LEAST "eval: {sets: {wiki: w.txt, 'no': [\"a=b\", c d]}}\n";
    static const char *const more[] = {"eval.sets.code=[x.c, y.c]", "eval.sets.wiki=v.txt"};
    pst_config *c = parsed(yaml, NULL), *again;
    assert_int_equal(c->eval.n_sets, 3);
    assert_string_equal(c->eval.sets[0], "wiki=w.txt");
    assert_string_equal(c->eval.sets[2], "no=c d");
    char *text = printed(c);
    assert_non_null(strstr(text, "\n  sets: {wiki: [w.txt], \"no\": [\"a=b\", \"c d\"]}\n"));
    again = parsed(text, NULL);
    assert_int_equal(again->eval.n_sets, 3);
    assert_string_equal(again->eval.sets[1], "no=a=b");
    free(text);
    pst_config_close(again);
    pst_config_close(c);
    assert_int_equal(pst_config_parse(yaml, "run.yaml", more, 2, &c), PST_OK);
    text = printed(c);
    assert_non_null(
        strstr(text, "\n  sets: {\"no\": [\"a=b\", \"c d\"], code: [x.c, y.c], wiki: [v.txt]}\n"));
    free(text);
    pst_config_close(c);
    c = parsed(yaml, "eval.sets={only: [z]}");
    assert_int_equal(c->eval.n_sets, 1);
    assert_string_equal(c->eval.sets[0], "only=z");
    pst_config_close(c);
    c = parsed(yaml, "eval.sets={}");
    text = printed(c);
    assert_non_null(strstr(text, "\n  sets: {}\n"));
    free(text);
    pst_config_close(c);
}

static void overrides_alone(void **state) {
    (void)state;
    static const char *const texts[] = {"model.kind=gpt", "paths=a"};
    pst_config *c = NULL;
    assert_int_equal(pst_config_parse("# nothing\n", "x/demo.v2.yaml", texts, 2, &c), PST_OK);
    assert_string_equal(c->name, "demo.v2");
    pst_config_close(c);
}

static const wrong_file wrong[] = {
    /* values */
    {LEAST "train:\n  lr: abc\n", NULL,
     "run.yaml:4:7: train.lr: expected a number > 0, found 'abc'"},
    {LEAST "train: {lr: 0}", NULL, "run.yaml:3:13: train.lr: expected a number > 0, found '0'"},
    {LEAST "train: {lr: .inf}", NULL,
     "run.yaml:3:13: train.lr: expected a number > 0, found '.inf'"},
    {LEAST "train: {lr: 1e999}", NULL,
     "run.yaml:3:13: train.lr: expected a number > 0, found '1e999'"},
    {LEAST "train: {lr: 0x10}", NULL,
     "run.yaml:3:13: train.lr: expected a number > 0, found '0x10'"},
    {LEAST "train: {lr: [1]}", NULL,
     "run.yaml:3:13: train.lr: expected a number > 0, found a list"},
    {LEAST "train: {lr: {a: 1}}", NULL,
     "run.yaml:3:13: train.lr: expected a number > 0, found a mapping"},
    {LEAST "train: {lr: }", NULL, "run.yaml:3:13: train.lr: expected a number > 0, found nothing"},
    {LEAST "train: {steps: '300'}", NULL,
     "run.yaml:3:16: train.steps: expected a whole number from 1 to 1000000000000, found a quoted "
     "string"},
    {LEAST "train: {steps: 1.5}", NULL,
     "run.yaml:3:16: train.steps: expected a whole number from 1 to 1000000000000, found '1.5'"},
    {LEAST "train: {steps: -1}", NULL,
     "run.yaml:3:16: train.steps: expected a whole number from 1 to 1000000000000, found '-1'"},
    {LEAST "train: {seed: 9223372036854775808}", NULL,
     "run.yaml:3:15: train.seed: expected a whole number from 0 to 9223372036854775807, found "
     "'9223372036854775808'"},
    {LEAST "checkpoint: {keep: 0}", NULL,
     "run.yaml:3:20: checkpoint.keep: expected a whole number from 1 to 1000000, found '0'"},
    {LEAST "train: {beta1: 1}", NULL,
     "run.yaml:3:16: train.beta1: expected a number >= 0 and < 1, found '1'"},
    {LEAST "train: {optimizer: adamx}", NULL,
     "run.yaml:3:20: train.optimizer: expected one of adamw, adam, lamb, muon, sgd, found "
     "'adamx'; did you mean 'adamw'?"},
    {LEAST "train: {optimizer: sgd, nesterov: true, momentum: 0}", NULL,
     "run.yaml:3:35: train.nesterov needs train.momentum above 0"},
    {LEAST "train: {optimizer: lion}", NULL,
     "run.yaml:3:20: train.optimizer: expected one of adamw, adam, lamb, muon, sgd, found 'lion'"},
    {LEAST "parallel: {memory: 8 G}", NULL,
     "run.yaml:3:20: parallel.memory: expected a number of bytes such as 512M or 8G, found '8 G'"},
    {LEAST "parallel: {memory: -8G}", NULL,
     "run.yaml:3:20: parallel.memory: expected a number of bytes such as 512M or 8G, found '-8G'"},
    {LEAST "parallel: {device: ''}", NULL,
     "run.yaml:3:20: parallel.device: expected a string, found an empty string"},
    {LEAST "model: {preset: \"a\\0b\"}", NULL,
     "run.yaml:3:1: section model is given twice; first in line 1"},
    {"model: {kind: gpt, preset: \"a\\0b\"}", NULL,
     "run.yaml:1:28: model.preset: expected a string, found a string with a zero byte"},
    {LEAST "train: {decay: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx}",
     NULL,
     "run.yaml:3:16: train.decay: expected one of cosine, linear, wsd, inverse-sqrt, none, "
     "found "
     "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'"},
    /* lists */
    {"data: {paths: []}", NULL,
     "run.yaml:1:15: data.paths: expected a string or a list of strings, found an empty list"},
    {"data:\n  paths:\n  - a\n  - {b: c}", NULL,
     "run.yaml:4:5: data.paths: expected a string or a list of strings, found a mapping"},
    {"data: {paths: [a, '']}", NULL,
     "run.yaml:1:19: data.paths: expected a string or a list of strings, found an empty string"},
    /* keys and shape */
    {LEAST "train:\n  batchsize: 3", NULL,
     "run.yaml:4:3: unknown key 'batchsize' in train; did you mean 'batch'?"},
    {LEAST "trian: {}", NULL, "run.yaml:3:1: unknown key 'trian'; did you mean 'train'?"},
    {LEAST "lr: 3", NULL, "run.yaml:3:1: unknown key 'lr'; did you mean 'train.lr'?"},
    {LEAST "train: {layers: 3}", NULL,
     "run.yaml:3:9: unknown key 'layers' in train; did you mean 'model.layers'?"},
    {LEAST "train: {name: a}", NULL,
     "run.yaml:3:9: unknown key 'name' in train; did you mean 'name' at the top of the file?"},
    {"model: {kind: gpt, hidden: 64}", NULL,
     "run.yaml:1:20: unknown key 'hidden' in model; did you mean 'model.channels'?"},
    {LEAST "checkpoint: {frequency: 3}", NULL,
     "run.yaml:3:14: unknown key 'frequency' in checkpoint; expected one of every, keep, "
     "keep_every, best, metric"},
    {LEAST "train:\n  lr: 1\n  batch: 2\n  lr: 2", NULL,
     "run.yaml:6:3: train.lr is given twice; first in line 4"},
    {LEAST "train: 3", NULL, "run.yaml:3:8: train: expected a mapping of keys, found a value"},
    {LEAST "train: [a]", NULL, "run.yaml:3:8: train: expected a mapping of keys, found a list"},
    {LEAST "[a, b]: 3", NULL, "run.yaml:3:1: expected a key, found a list"},
    {"- a\n- b", NULL,
     "run.yaml:1:1: expected a mapping of sections such as 'model:', found a list"},
    {"hello", NULL, "run.yaml:1:1: expected a mapping of sections such as 'model:', found a value"},
    {"", NULL,
     "run.yaml: model.kind is missing; expected one of gpt, llama, bert, mlp, resnet, custom"},
    {"model: {kind: gpt}", NULL,
     "run.yaml: data.paths is missing; expected a string or a list of strings"},
    {LEAST "---\nmore: 1", NULL, "run.yaml:4:1: a second YAML document starts here; expected one"},
    /* keys that had another name */
    {LEAST "train: {validate_every: 5}\neval:\n  every: 6", NULL,
     "run.yaml:5:3: eval.every (formerly train.validate_every) is given twice; first in line 3"},
    {LEAST "eval: {every: 6}\ntrain:\n  validate_every: 5", NULL,
     "run.yaml:5:3: eval.every (formerly train.validate_every) is given twice; first in line 3"},
    {LEAST "train: {validate_every: x}", NULL,
     "run.yaml:3:25: eval.every: expected a whole number from 0 to 1000000000000, found 'x'"},
    {LEAST "model: {validate_every: 5}", NULL,
     "run.yaml:3:1: section model is given twice; first in line 1"},
    {"data: {validate_every: 5}", NULL,
     "run.yaml:1:8: unknown key 'validate_every' in data; did you mean 'eval.every'?"},
    {LEAST "every: 5", NULL, "run.yaml:3:1: unknown key 'every'; did you mean 'eval.every'?"},
    {LEAST, "train.lr.x=1", "override 'train.lr.x=1': train.lr is a key, not a section"},
    {LEAST "eval.every: 5", NULL,
     "run.yaml:3:1: unknown key 'eval.every'; write it nested: eval: {every: ...}"},
    {LEAST "train.validate_every: 5", NULL,
     "run.yaml:3:1: unknown key 'train.validate_every'; write it nested: eval: {every: ...}"},
    /* YAML itself */
    {LEAST "train: {lr: 1", NULL,
     "run.yaml:4:1: not valid YAML: did not find expected ',' or '}' while parsing a flow mapping "
     "that starts in line "
     "3"},
    {LEAST "train:\n\tlr: 1", NULL,
     "run.yaml:4:1: not valid YAML: found character that cannot start any token while scanning for "
     "the next token that "
     "starts in line 4"},
    {LEAST "train: *nobody", NULL, "run.yaml:3:8: not valid YAML: found undefined alias"},
    {LEAST "name: \x01", NULL, "run.yaml:3:7: not valid YAML: control characters are not allowed"},
    {LEAST "name: \xff", NULL, "run.yaml:3:7: not valid YAML: invalid leading UTF-8 octet"},
    {LEAST "name: !shout hello", NULL,
     "run.yaml:3:7: name: the YAML tag '!shout' is not supported"},
    {LEAST "eval: {tokens: every}", NULL,
     "run.yaml:3:16: eval.tokens: expected a whole number from 0 to 1000000000, or all, found "
     "'every'"},
    {LEAST "eval: {sets: a.txt}", NULL,
     "run.yaml:3:14: eval.sets: expected " NAMES ", found a value"},
    {LEAST "eval: {sets: [a.txt]}", NULL,
     "run.yaml:3:14: eval.sets: expected " NAMES ", found a list"},
    {LEAST "eval: {sets: }", NULL, "run.yaml:3:14: eval.sets: expected " NAMES ", found nothing"},
    {LEAST "eval:\n  sets:\n    a b: x", NULL,
     "run.yaml:5:10: eval.sets: expected " NAMES ", found 'a b'"},
    {LEAST "eval:\n  sets:\n    a: []", NULL,
     "run.yaml:5:8: eval.sets: expected " NAMES ", found an empty list"},
    {LEAST "eval:\n  sets:\n    a: [x, {}]", NULL,
     "run.yaml:5:12: eval.sets: expected " NAMES ", found a mapping"},
    {LEAST "eval:\n  sets:\n    a: x\n    a: y", NULL,
     "run.yaml:6:5: eval.sets: 'a' is given twice"},
    {LEAST, "eval.sets=x", "override 'eval.sets=x': expected " NAMES ", found 'x'"},
    {LEAST, "eval.sets.a=", "override 'eval.sets.a=': expected " NAMES ", found an empty string"},
    {LEAST, "eval.sets.a.b=x", "override 'eval.sets.a.b=x': expected eval.sets.NAME=PATH"},
    {LEAST, "eval.sets..a=x", "override 'eval.sets..a=x': expected eval.sets.NAME=PATH"},
    {LEAST, "sets.a=x", "override 'sets.a=x': unknown key 'sets'; did you mean 'eval.sets.a'?"},
    {LEAST, "sets=x", "override 'sets=x': expected the key's full path, eval.sets=VALUE"},
    /* contradictions */
    {LEAST "train: {batch: 32, micro_batch: 33}", NULL,
     "run.yaml:3:33: train.micro_batch (33) is larger than train.batch (32)"},
    {LEAST "train: {lr_min: 1}", NULL,
     "run.yaml:3:17: train.lr_min (1) is above train.lr (0.0003)"},
    {LEAST "parallel: {tensor: -1}", NULL,
     "run.yaml:3:20: parallel.tensor: expected a whole number from 0 to 1024 or a list of them, "
     "found '-1'"},
    {LEAST "parallel: {data: -4}", NULL,
     "run.yaml:3:18: parallel.data: expected a whole number from 0 to 65536, found '-4'"},
    {LEAST "parallel: {zero: 3}", NULL,
     "run.yaml:3:18: parallel.zero: expected a whole number from 0 to 2, found '3'"},
    {LEAST "name: a/b", NULL,
     "run.yaml:3:7: name: expected a folder name (without '/', not starting with '.'), found "
     "'a/b'"},
    /* keys that are not read */
    {"model: {kind: mlp, layers: 2, heads: 4}\ndata: {paths: a}\n", NULL,
     "run.yaml:1:38: model.heads is not used by model.kind mlp, which uses preset, activation, "
     "layers, channels, "
     "context, vocabulary"},
    {"model: {kind: bert, activation: gelu_tanh}\ndata: {paths: a}\n", NULL,
     "run.yaml:1:33: model.activation is not used by model.kind bert, which uses preset, weights, "
     "layers, heads, channels, "
     "context, vocabulary, intermediate, norm_eps, token_types, max_predictions, next_sentence, "
     "task, labels, dropout, "
     "attention_dropout"},
    {"model: {kind: resnet, context: 1}\ndata: {paths: a}\n", NULL,
     "run.yaml:1:32: model.context is not used by model.kind resnet, which uses preset, layers, "
     "channels, "
     "vocabulary, image"},
    {"model: {kind: custom}\ndata: {paths: a}\n", "layers=2",
     "override 'layers=2': model.layers is not used by model.kind custom, which uses no other "
     "key"},
    {"model: {kind: gpt, heads: 4}\ndata: {paths: a}\n", "model.kind=mlp",
     "run.yaml:1:27: model.heads is not used by model.kind mlp, which uses preset, activation, "
     "layers, channels, "
     "context, vocabulary"},
    {LEAST "checkpoint: {keep: 1}", "model.image=32",
     "override 'model.image=32': model.image is not used by model.kind gpt, which uses preset, "
     "weights, activation, "
     "layers, heads, channels, context, vocabulary, dropout, attention_dropout"},
    {"model: {kind: resnet}\ndata: {kind: mnist, paths: a, tokenizer: byte}\n", NULL,
     "run.yaml:2:42: data.tokenizer is not used by data.kind mnist, which uses paths, validation"},
    /* overrides */
    {LEAST, "train.lr=abc", "override 'train.lr=abc': expected a number > 0, found 'abc'"},
    {LEAST, "lr=", "override 'lr=': expected a number > 0, found an empty string"},
    {LEAST, "lr", "override 'lr': expected section.key=value"},
    {LEAST, "learning_rate=1",
     "override 'learning_rate=1': unknown key 'learning_rate'; did you mean 'train.lr'?"},
    {LEAST, "train.Learning-Rate=1",
     "override 'train.Learning-Rate=1': unknown key 'Learning-Rate' in train; did you mean "
     "'train.lr'?"},
    {LEAST "train:\n  tensor_model_parallel_size: 2", NULL,
     "run.yaml:4:3: unknown key 'tensor_model_parallel_size' in train; did you mean "
     "'parallel.tensor'?"},
    {LEAST "n_embd: 64", NULL,
     "run.yaml:3:1: unknown key 'n_embd'; did you mean 'model.channels'?"},
    {LEAST, "num_epochs=3",
     "override 'num_epochs=3': unknown key 'num_epochs'; did you mean 'train.epochs'?"},
    {LEAST "train: {steps: 5, tokens: 100}", NULL,
     "run.yaml:3:27: train.steps and train.tokens both set the length of the run; give one"},
    {LEAST, "train.time_limit=2w",
     "override 'train.time_limit=2w': expected a time such as 8h, 1h30m or 3600 (seconds), found "
     "'2w'"},
    {LEAST "stop: {patience: 2}", NULL,
     "run.yaml:3:18: stop.patience counts evaluations, but eval.every is 0"},
    {LEAST "include: base.yaml", NULL,
     "run.yaml:3:10: include: only a run file on disk can include others"},
    {LEAST, "gpus=4",
     "override 'gpus=4': unknown key 'gpus': -n RANKS sets the number of ranks, and "
     "parallel.device=cuda selects GPUs"},
    {LEAST "train: {precision: bfloat16}", NULL,
     "run.yaml:3:20: train.precision: expected one of fp32, tf32, bf16, fp16, fp8, found "
     "'bfloat16'; did you mean "
     "'bf16'?"},
    {LEAST, "=3", "override '=3': expected section.key=value"},
    {LEAST, "kind=gpt", "override 'kind=gpt': 'kind' is ambiguous; write model.kind or data.kind"},
    {LEAST, "batchsize=3",
     "override 'batchsize=3': unknown key 'batchsize'; did you mean 'batch'?"},
    {LEAST, "train.bathc=3",
     "override 'train.bathc=3': unknown key 'bathc' in train; did you mean 'batch'?"},
    {LEAST, "tarin.lr=3", "override 'tarin.lr=3': unknown key 'tarin'; did you mean 'train'?"},
    {LEAST, "frobnicate=3",
     "override 'frobnicate=3': unknown key 'frobnicate'; penstock train --help lists all keys"},
    {LEAST, "train=3", "override 'train=3': expected train.KEY=VALUE"},
    {LEAST, "paths=[a] b",
     "override 'paths=[a] b': expected a list such as [a.txt, b.txt], found something else"},
    {LEAST, "paths=[a",
     "override 'paths=[a': expected a list such as [a.txt, b.txt], found something else"},
    {LEAST, "preset=\xff",
     "override 'preset=\xff': expected a string, found bytes that are not UTF-8"},
    {LEAST, "micro_batch=77",
     "override 'micro_batch=77': train.micro_batch (77) is larger than train.batch (32)"},
    {LEAST, "warmup=1.0",
     "override 'warmup=1.0': expected a number of steps such as 20, or a share of all "
     "steps such as 0.05 or 5%, found "
     "'1.0'"},
    {LEAST "train: {warmup: 101%}", NULL,
     "run.yaml:3:17: train.warmup: expected a number of steps such as 20, or a share of all "
     "steps such as 0.05 or 5%, found "
     "'101%'"},
    {LEAST, "warmup=-5%",
     "override 'warmup=-5%': expected a number of steps such as 20, or a share of all "
     "steps such as 0.05 or 5%, found "
     "'-5%'"},
};

static void wrong_files_say_what_and_where(void **state) {
    (void)state;
    expect_refused(wrong, sizeof wrong / sizeof *wrong);
}

/* Aliases mean the node they name; a file that multiplies itself stays small. */
static void aliases_are_harmless(void **state) {
    (void)state;
    pst_config *c = parsed(
        "model: {kind: gpt}\ndata: {paths: &p [a, b]}\ntrain: {lr: &x 0.5, clip: *x}\n", NULL);
    assert_true(c->train.clip == 0.5);
    pst_config_close(c);
    char text[4096] = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 40; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "a%d: &a%d [*a%d, *a%d, *a%d]\n", i, i, i - 1,
                 i - 1, i - 1);
    }
    c = NULL;
    assert_int_equal(pst_config_parse(text, "bomb.yaml", NULL, 0, &c), PST_EINPUT);
    assert_null(c);
    assert_int_equal(pst_config_parse("&r {model: *r}", "loop.yaml", NULL, 0, &c), PST_EINPUT);
}

static void files(void **state) {
    (void)state;
    char path[] = "/tmp/pst_config_XXXXXX";
    pst_config *c = NULL;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *out = fdopen(fd, "w");
    fputs(LEAST, out);
    fclose(out);
    assert_int_equal(pst_config_load(path, NULL, 0, &c), PST_OK);
    assert_string_equal(c->source, path);
    assert_string_equal(c->name, strrchr(path, '/') + 1);
    pst_config_close(c);
    c = NULL;
    out = fopen(path, "w");
    for (int i = 0; i < 1100; i++) fprintf(out, "#%01023d\n", i);
    fclose(out);
    assert_int_equal(pst_config_load(path, NULL, 0, &c), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "larger than 1 MiB"));
    out = fopen(path, "w");
    fwrite("name: a\0b", 1, 9, out);
    fclose(out);
    assert_int_equal(pst_config_load(path, NULL, 0, &c), PST_EINPUT);
    assert_non_null(strstr(pst_error(), ":1:8: not valid YAML"));
    unlink(path);
    assert_int_equal(pst_config_load(path, NULL, 0, &c), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "cannot open run file"));
    assert_int_equal(pst_config_load("/tmp", NULL, 0, &c), PST_EINPUT);
    assert_null(c);
}

/* Paths in a run file mean what lies beside it, else what lies in the current folder; overrides
 * always the latter. */
static void paths_beside_the_file(void **state) {
    (void)state;
    char folder[] = "/tmp/pst_config_XXXXXX", path[80], expected[160];
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(mkdir("sub", 0700) | mkdir("sub/texts", 0700) | mkdir("near", 0700), 0);
    FILE *out = fopen("sub/run.yaml", "w");
    fputs("model: {kind: gpt, weights: texts}\neval: {sets: {a: [texts, other], b: texts}}\n"
          "data: {paths: [texts/**/*.txt, other/x.txt, ../near/a, ./texts, '*.txt', /etc/x, "
          ".texts, te*/x]}\n",
          out);
    fclose(out);
    assert_int_equal(chdir("near"), 0);
    snprintf(path, sizeof path, "../sub/run.yaml");
    static const struct {
        const char *expected;
        int beside;
    } rows[] = {{"texts/**/*.txt", 1}, {"other/x.txt", 0}, {"../near/a", 1}, {"./texts", 1},
                {"*.txt", 0},          {"/etc/x", 0},      {".texts", 0},    {"te*/x", 0}};
    for (int override = 0; override < 2; override++) {
        const char *const texts[] = {"data.paths=[texts, ../near/a]", "eval.sets.a=texts"};
        pst_config *c = NULL;
        assert_int_equal(pst_config_load(path, texts, override ? 2 : 0, &c), PST_OK);
        snprintf(expected, sizeof expected, "%s/sub/texts", folder);
        assert_string_equal(c->model.weights, expected);
        for (uint32_t i = 0; i < c->data.n_path && !override; i++) {
            snprintf(expected, sizeof expected, "%s%s%s", rows[i].beside ? folder : "",
                     rows[i].beside ? "/sub/" : "", rows[i].expected);
            assert_string_equal(c->data.paths[i], expected);
        }
        if (override) assert_string_equal(c->data.paths[1], "../near/a");
        snprintf(expected, sizeof expected, "a=%s/sub/texts", folder);
        assert_string_equal(c->eval.sets[override ? 1 : 0], override ? "a=texts" : expected);
        if (!override) assert_string_equal(c->eval.sets[1], "a=other");
        /* of the file, whatever is overridden */
        snprintf(expected, sizeof expected, "b=%s/sub/texts", folder);
        assert_string_equal(c->eval.sets[override ? 0 : 2], expected);
        pst_config_close(c);
    }
    unlink(path);
    assert_int_equal(rmdir("../sub/texts") | rmdir("../sub") | chdir("/"), 0);
    snprintf(path, sizeof path, "%s/near", folder);
    assert_int_equal(rmdir(path) | rmdir(folder), 0);
}

static void unread_keys_are_said(void **state) {
    (void)state;
    static const char *const words[] = {"optimizer=sgd",  "beta1=0.5",          "eps=1e-08",
                                        "precision=fp16", "loss_scale_start=4", "lr_min=1e-5",
                                        "schedule_file=x"};
    pst_config *c = NULL;
    char text[200];
    size_t next = 0;
    assert_int_equal(pst_config_parse(LEAST, "run.yaml", words, sizeof words / sizeof *words, &c),
                     PST_OK);
    assert_true(pst_config_unused(c, &next, text, sizeof text));
    assert_string_equal(text, "train.beta1 has no effect: train.optimizer is sgd");
    assert_true(pst_config_unused(c, &next, text, sizeof text));
    assert_string_equal(text, "parallel.schedule_file has no effect: parallel.schedule is 1f1b");
    assert_false(pst_config_unused(c, &next, text, sizeof text));
    pst_config_close(c);
    static const struct {
        const char *precision, *kind, *said;
    } streams[] = {{"fp16", "gpt", NULL},
                   {"fp8", "bert", NULL},
                   {"fp32", "gpt", "train.residual has no effect: train.precision is fp32"},
                   {"tf32", "mlp", "train.residual has no effect: train.precision is tf32"},
                   {"bf16", "mlp", "train.residual has no effect: model.kind is mlp"},
                   {"fp16", "resnet", "train.residual has no effect: model.kind is resnet"}};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        char precision[32], kind[32];
        const char *with[] = {precision, kind, "train.residual=fp32"};
        snprintf(precision, sizeof precision, "precision=%s", streams[i].precision);
        snprintf(kind, sizeof kind, "model.kind=%s", streams[i].kind);
        assert_int_equal(
            pst_config_parse("model: {preset: x}\ndata: {paths: a}\n", "run.yaml", with, 3, &c),
            PST_OK);
        next = 0;
        assert_int_equal(pst_config_unused(c, &next, text, sizeof text), streams[i].said != NULL);
        if (streams[i].said) assert_string_equal(text, streams[i].said);
        assert_false(streams[i].said && pst_config_unused(c, &next, text, sizeof text));
        pst_config_close(c);
    }
}

/* Islands: keys that need a number above 0. */
static void unread_keys_of_islands_are_said(void **state) {
    (void)state;
    static const char *const words[] = {"parallel.local.alpha=0.5", "parallel.local.islands=2",
                                        "parallel.local.delay=0", "parallel.local.steps=0",
                                        "parallel.local.outer.lr=0.5"};
    static const char *const said[] = {
        "parallel.local.islands has no effect: parallel.local.steps is 0",
        "parallel.local.alpha has no effect: parallel.local.steps is 0",
        "parallel.local.outer.lr has no effect: parallel.local.steps is 0"};
    static const char *const with[] = {"parallel.local.alpha=0.5", "parallel.local.islands=2",
                                       "parallel.local.steps=4", "parallel.local.outer.lr=0.5"};
    pst_config *c = NULL;
    char text[200];
    size_t next = 0;
    assert_int_equal(pst_config_parse(LEAST, "run.yaml", words, sizeof words / sizeof *words, &c),
                     PST_OK);
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        assert_true(pst_config_unused(c, &next, text, sizeof text));
        assert_string_equal(text, said[i]);
    }
    assert_false(pst_config_unused(c, &next, text, sizeof text));
    pst_config_close(c);
    next = 0;
    assert_int_equal(pst_config_parse(LEAST, "run.yaml", with, sizeof with / sizeof *with, &c),
                     PST_OK);
    assert_true(pst_config_unused(c, &next, text, sizeof text));
    assert_string_equal(text, "parallel.local.alpha has no effect: parallel.local.delay is 0");
    assert_false(pst_config_unused(c, &next, text, sizeof text));
    pst_config_close(c);
}

/* Packed gradients: keys that need one of two others. */
static void unread_keys_of_codecs_are_said(void **state) {
    (void)state;
    static const char *const words[] = {
        "parallel.compress.up=none",      "parallel.compress.down=none",
        "parallel.compress.block=64",     "parallel.compress.after=3",
        "parallel.compress.min_bytes=1K", "parallel.compress.links=all"};
    static const char *const keys[] = {"block", "after", "min_bytes", "links"};
    static const char *const none = " and parallel.compress.stages is none";
    const char *const stages[] = {none, none, "", none};
    const char *const local = " and parallel.local.compress is none";
    static const struct {
        const char *up, *down;
        uint32_t n;
    } codecs[] = {{"parallel.compress.up=none", "parallel.compress.down=none", 4},
                  {"parallel.compress.up=powersgd", "parallel.compress.down=none", 1},
                  {"parallel.compress.up=powersgd", "parallel.compress.down=int8", 0},
                  {"parallel.compress.up=int4", "parallel.compress.down=bf16", 0}};
    pst_config *c = NULL;
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        const char *with[sizeof words / sizeof *words];
        char text[300], said[300];
        size_t next = 0;
        memcpy(with, words, sizeof words);
        with[0] = codecs[i].up;
        with[1] = codecs[i].down;
        assert_int_equal(pst_config_parse(LEAST, "run.yaml", with, sizeof with / sizeof *with, &c),
                         PST_OK);
        for (uint32_t k = 0; k < codecs[i].n; k++) {
            snprintf(said, sizeof said,
                     "parallel.compress.%s has no effect: parallel.compress.up is %s and "
                     "parallel.compress.down is none%s%s",
                     keys[k], strchr(with[0], '=') + 1, stages[k], k ? "" : local);
            assert_true(pst_config_unused(c, &next, text, sizeof text));
            assert_string_equal(text, said);
        }
        assert_false(pst_config_unused(c, &next, text, sizeof text));
        pst_config_close(c);
    }
    const char *const defaults[] = {"parallel.compress.min_bytes=64K"};
    size_t next = 0;
    char text[200];
    assert_int_equal(pst_config_parse(LEAST, "run.yaml", defaults, 1, &c), PST_OK);
    assert_false(pst_config_unused(c, &next, text, sizeof text));
    pst_config_close(c);
}

static int is_key(const char *name) {
    pst_config_key key = {.size = sizeof key};
    char full[200];
    for (size_t i = 0; pst_config_key_at(i, &key); i++) {
        snprintf(full, sizeof full, "%s%s%s", key.section, *key.section ? "." : "", key.key);
        if (!strcmp(full, name)) return 1;
    }
    return 0;
}

/* Names of other programs lead to keys that there are, and none of them hides one of ours. */
static void foreign_names(void **state) {
    (void)state;
    const char *key, *names;
    size_t i = 0;
    for (; (key = pst_row_foreign_at(i, &names)); i++) {
        if (*key && !is_key(key)) fail_msg("there is no %s", key);
        char copy[1000], *rest = copy, *name;
        snprintf(copy, sizeof copy, "%s", names ? names : "");
        while (names && (name = strsep(&rest, "|"))) {
            const char *instead;
            const char *found = pst_config_key_for(name, &instead);
            assert_true((instead != NULL) == (*key == 0));
            if (strcmp(found ? found : "", key))
                fail_msg("%s is %s, not %s", name, found ? found : "nothing", key);
            char text[200], full[120], *said;
            pst_config *config = NULL;
            const char *override = text;
            snprintf(text, sizeof text, "%s=1", name);
            assert_int_equal(pst_config_parse(LEAST, "run.yaml", &override, 1, &config),
                             PST_EINPUT);
            snprintf(full, sizeof full, "did you mean '%s'?", key);
            said = strstr(pst_error(), *key ? full : "': ");
            if (!said) fail_msg("%s: %s", name, pst_error());
        }
    }
    assert_true(i > 50);
    const char *instead;
    assert_string_equal(pst_config_key_for("lr", &instead), "train.lr");
    assert_string_equal(pst_config_key_for("parallel.tensor", &instead), "parallel.tensor");
    assert_null(pst_config_key_for("frobnicate", &instead));
    assert_null(instead);
}

static void help_has_every_section(void **state) {
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    pst_config_help(out);
    fclose(out);
    assert_non_null(strstr(text, "\ntrain:\n"));
    assert_non_null(strstr(text, "one of adamw, adam, lamb, muon, sgd; default adamw"));
    assert_non_null(strstr(text, "required"));
    assert_non_null(
        strstr(text, "from 0 to 4096; default 0; only with model.kind gpt, llama, bert\n"));
    free(text);
}

/* Numbers mean the same under a locale with a decimal comma. */
static void locale_does_not_matter(void **state) {
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8")) {
        (void)SKIPPED("a locale with a decimal comma: neither de_DE.UTF-8 nor fr_FR.UTF-8 is here "
                      "(apt-get install locales-all)");
        skip();
    }
    pst_config *c = parsed(LEAST, "lr=0.5");
    char *text = printed(c);
    setlocale(LC_ALL, "C");
    assert_true(c->train.lr == 0.5);
    assert_non_null(strstr(text, "lr: 0.5\n"));
    free(text);
    pst_config_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_and_values),
        cmocka_unit_test(warm_up),
        cmocka_unit_test(length),
        cmocka_unit_test(times),
        cmocka_unit_test(overrides),
        cmocka_unit_test(overrides_alone),
        cmocka_unit_test(wrong_files_say_what_and_where),
        cmocka_unit_test(aliases_are_harmless),
        cmocka_unit_test(files),
        cmocka_unit_test(paths_beside_the_file),
        cmocka_unit_test(unread_keys_are_said),
        cmocka_unit_test(unread_keys_of_islands_are_said),
        cmocka_unit_test(unread_keys_of_codecs_are_said),
        cmocka_unit_test(help_has_every_section),
        cmocka_unit_test(foreign_names),
        cmocka_unit_test(named_lists),
        cmocka_unit_test(locale_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
