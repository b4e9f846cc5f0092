/* Names that other programs (Hugging Face, Megatron-LM, DeepSpeed, nanoGPT, PyTorch Lightning)
 * use for our keys and values: an error message for such a name suggests ours. */
#include "config/rows.h"
#include <ctype.h>
#include <string.h>

/* key: our full name, or NULL if there is no such key; say: what to do instead. */
typedef struct {
    const char *names; /* "a|b|c" */
    const char *key, *say;
} foreign_key;

static const foreign_key keys[] = {
    {"run_name|exp_name|experiment_name|job_name", "name", NULL},

    {"model_type|architecture|arch", "model.kind", NULL},
    {"model_name|model_size", "model.preset", NULL},
    {"model_name_or_path|init_from|pretrained|pretrained_checkpoint|load_weights", "model.weights",
     NULL},
    {"activation_function|hidden_act|act_fn|activation_fn", "model.activation", NULL},
    {"num_layers|n_layer|n_layers|num_hidden_layers|depth", "model.layers", NULL},
    {"n_head|n_heads|num_heads|num_attention_heads", "model.heads", NULL},
    {"hidden|hidden_size|n_embd|n_embed|d_model|embed_dim|hidden_dim|model_dim|dim|width",
     "model.channels", NULL},
    {"seq_length|seq_len|sequence_length|block_size|max_seq_len|max_seq_length|context_length|n_"
     "ctx|n_positions|"
     "max_position_embeddings",
     "model.context", NULL},
    {"vocab_size|n_vocab|padded_vocab_size|num_classes", "model.vocabulary", NULL},
    {"image_size|img_size|resolution", "model.image", NULL},
    {"hidden_dropout|dropout_rate|resid_pdrop|hidden_dropout_prob", "model.dropout", NULL},
    {"attn_pdrop|attn_dropout|attention_probs_dropout_prob", "model.attention_dropout", NULL},
    {"ffn_hidden_size|intermediate_size", "model.intermediate", NULL},
    {"num_key_value_heads|n_kv_heads|num_query_groups|n_kv_head", "model.kv_heads", NULL},
    {"sliding_window", "model.window", NULL},
    {"rms_norm_eps", "model.norm_eps", NULL},
    {"rope_base|rotary_base", "model.rope_theta", NULL},
    {"tie_word_embeddings|tie_embeddings", "model.tied", NULL},
    {"attention_bias|qkv_bias|add_qkv_bias", "model.bias", NULL},
    {"ffn_dim|n_inner|mlp_ratio", NULL,
     "the hidden width of a block is 4 x model.channels; for llama and bert, model.intermediate"},

    {"data_path|data_dir|data_files|dataset|train_data|train_data_path|train_file|train_files",
     "data.paths", NULL},
    {"tokenizer_name|tokenizer_type|tokenizer_model|vocab_file", "data.tokenizer", NULL},
    {"val_split|validation_split|test_split|val_fraction", "data.validation", NULL},

    {"max_steps|max_iters|train_iters|train_steps|training_steps|num_steps|num_train_steps|num_"
     "iterations|total_steps",
     "train.steps", NULL},
    {"n_epochs|num_epochs|max_epochs|num_train_epochs", "train.epochs", NULL},
    {"max_tokens|train_tokens|num_tokens|total_tokens", "train.tokens", NULL},
    {"max_time|max_duration|wall_time|max_wall_time|exit_duration_in_mins", "train.time_limit",
     NULL},
    {"early_stopping|early_stopping_patience", "stop.patience", NULL},
    {"batch_size|global_batch_size|train_batch_size|total_batch_size|gbs|bs", "train.batch", NULL},
    {"rampup_batch_size|batch_size_rampup|batch_size_warmup|step_batch_size_schedule", NULL,
     "give train.batch_warmup, such as {from: 32, tokens: 1000000}: the samples of the first "
     "steps, and the tokens until all have train.batch"},
    {"micro_batch_size|microbatch_size|mbs|device_batch_size|per_device_train_batch_size|"
     "train_micro_batch_size_per_gpu",
     "train.micro_batch", NULL},
    {"gradient_accumulation_steps|gradient_accumulation|grad_accum|accumulate_grad_batches|num_"
     "microbatches|"
     "n_microbatches",
     NULL, "a step has train.batch / train.micro_batch micro-batches"},
    {"random_seed|manual_seed|rng_seed", "train.seed", NULL},
    {"optim|optimizer_type|optimizer_name", "train.optimizer", NULL},
    {"exp_avg_dtype|exp_avg_sq_dtype|optimizer_state_dtype|optimizer_dtype|state_dtype|"
     "optimizer_states|state",
     "train.optimizer_state", NULL},
    {"learning_rate|lr_rate|base_lr|max_lr|peak_lr", "train.lr", NULL},
    {"min_lr|end_lr|final_lr", "train.lr_min", NULL},
    {"warmup_steps|warmup_iters|warmup_ratio|num_warmup_steps|lr_warmup_iters|lr_warmup_steps|lr_"
     "warmup_fraction",
     "train.warmup", NULL},
    {"lr_scheduler|lr_scheduler_type|lr_schedule|lr_decay_style|scheduler", "train.decay", NULL},
    {"wd", "train.weight_decay", NULL},
    {"adam_beta1|beta_1", "train.beta1", NULL},
    {"adam_beta2|beta_2", "train.beta2", NULL},
    {"label_smoothing_factor|smoothing", "train.label_smoothing", NULL},
    {"z_loss_weight|z_loss_coefficient|z_loss_multiplier", "train.z_loss", NULL},
    {"no_weight_decay|no_decay|decay_parameters", "train.decay_params", NULL},
    {"epsilon|adam_eps|adam_epsilon", "train.eps", NULL},
    {"grad_clip|clip_grad|clip_norm|max_grad_norm|max_norm|gradient_clipping|gradient_clip_val",
     "train.clip", NULL},
    {"dtype|fp16|bf16|fp8|amp|mixed_precision|params_dtype", "train.precision", NULL},
    {"fp32_residual_connection|residual_in_fp32|residual_dtype", "train.residual", NULL},
    {"initial_loss_scale|initial_scale_power", "train.loss_scale_start", NULL},
    {"loss_scale_window", "train.loss_scale_interval", NULL},
    {"log_interval|logging_steps|log_every_n_steps|print_every", "train.log_every", NULL},

    {"eval_interval|eval_steps|eval_every|val_interval|val_check_interval|evaluation_interval",
     "eval.every", NULL},
    {"eval_iters|eval_batches|eval_tokens|val_steps|limit_val_batches", "eval.tokens", NULL},

    {"pipeline_model_parallel_size|pipeline_parallel_size|pipeline_parallel|pp_size|pp|num_stages",
     "parallel.pipeline", NULL},
    {"tensor_model_parallel_size|tensor_parallel_size|tensor_parallel|model_parallel_size|tp_size|"
     "tp",
     "parallel.tensor", NULL},
    {"data_parallel_size|data_parallel|num_replicas|dp_size|dp|ddp", "parallel.data", NULL},
    {"sequence_parallel|sp", "parallel.sequence", NULL},
    {"zero_stage|zero_optimization|use_distributed_optimizer|fsdp", "parallel.zero", NULL},
    {"pipeline_schedule|pipeline_parallel_schedule", "parallel.schedule", NULL},
    {"virtual_pipeline_model_parallel_size|num_layers_per_virtual_pipeline_stage|num_model_chunks|"
     "virtual_stages|vpp",
     "parallel.chunks", NULL},
    {"activation_checkpointing|gradient_checkpointing|recompute_granularity|recompute_activations|"
     "recompute_num_layers|remat",
     "parallel.recompute", NULL},
    {"accelerator", "parallel.device", NULL},
    {"backend|dist_backend|distributed_backend", "parallel.transport", NULL},
    {"num_threads|n_threads|omp_num_threads", "parallel.threads", NULL},
    {"gpu|gpus|n_gpus|ngpus|num_gpus|num_devices", NULL,
     "-n RANKS sets the number of ranks, and parallel.device=cuda selects GPUs"},
    {"np|nproc|nproc_per_node|world_size|num_processes|ranks|workers", NULL,
     "-n RANKS sets the number of ranks"},
    {"nodes|nnodes|num_nodes|hosts|host", NULL,
     "--hostfile FILE lists the hosts, or a launcher starts the ranks there"},

    {"save_interval|save_every|save_steps|checkpoint_interval|ckpt_interval", "checkpoint.every",
     NULL},
    {"save_total_limit|save_top_k|max_to_keep", "checkpoint.keep", NULL},
    {"output|output_dir|out_dir|save_dir|log_dir", NULL,
     "--runs DIR sets the folder of all runs, name=NAME the run's folder in it"},
    {"load|continue|resume_from|resume_from_checkpoint|load_checkpoint", NULL,
     "--resume PATH continues from a run or a checkpoint"},
    {"config|config_file|conf|yaml", NULL,
     "give the run file as an argument without an option: RUN.yaml"},
    {"log_level|logging_level|verbosity", "log.level", NULL},
};

/* Values of a key by their names elsewhere. */
typedef struct {
    const char *key, *names, *say;
} foreign_value;

static const foreign_value values[] = {
    {"train.precision", "float32|single|32|32-true", "did you mean 'fp32'?"},
    {"train.precision", "bfloat16|bf16-mixed|bf16-true", "did you mean 'bf16'?"},
    {"train.precision", "float16|half|16|16-mixed|16-true", "did you mean 'fp16'?"},
    {"train.precision", "float8|e4m3|transformer-engine", "did you mean 'fp8'?"},
    {"train.residual", "true|float32|32", "did you mean 'fp32'?"},
    {"train.residual", "false|bf16|fp16|none", "did you mean 'same'?"},
    {"train.decay", "constant|constant_with_warmup", "did you mean 'none'?"},
    {"train.decay", "warmup_stable_decay|trapezoidal", "did you mean 'wsd'?"},
    {"train.decay", "inverse_sqrt|noam|rsqrt", "did you mean 'inverse-sqrt'?"},
    {"model.activation", "gelu",
     "use 'gelu_tanh' for the approximation with tanh (GPT-2's) or 'gelu_erf' for the exact "
     "function"},
    {"model.activation", "gelu_new|gelu_fast|gelu_pytorch_tanh", "did you mean 'gelu_tanh'?"},
    {"parallel.recompute", "true|uniform", "did you mean 'full'?"},
    {"parallel.recompute", "block", "did you mean '{full: N}' with N layers per chunk?"},
    {"parallel.recompute", "false", "did you mean 'none'?"},
};

static int same(char a, char b) {
    return tolower((unsigned char)a) == tolower((unsigned char)b) || (a == '-' && b == '_');
}

/* Whether the list has the word; letter case is ignored and '-' matches '_'. */
static int has(const char *names, const char *word) {
    size_t n = strlen(word);
    for (const char *at = names; n && at;) {
        size_t i = 0;
        while (i < n && at[i] && same(word[i], at[i])) i++;
        if (i == n && (at[n] == '|' || !at[n])) return 1;
        at = strchr(at, '|');
        if (at) at++;
    }
    return 0;
}

int pst_row_foreign(const char *name, const char **key, const char **say) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!has(keys[i].names, name)) continue;
        *key = keys[i].key;
        *say = keys[i].say;
        return 1;
    }
    return 0;
}

const char *pst_row_foreign_value(const pst_row *row, const char *text) {
    char name[PST_ROW_TEXT_BYTES];
    pst_row_name(row, name);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (!strcmp(values[i].key, name) && (!values[i].names || has(values[i].names, text)))
            return values[i].say;
    return NULL;
}

const char *pst_row_foreign_at(size_t i, const char **names) {
    size_t n = sizeof keys / sizeof *keys;
    if (i < n) {
        *names = keys[i].names;
        return keys[i].key ? keys[i].key : "";
    }
    if (i - n < sizeof values / sizeof *values) {
        *names = NULL;
        return values[i - n].key;
    }
    return NULL;
}
