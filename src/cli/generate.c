/* penstock generate */
#include "cli.h"

static const char summary[] =
    "Continues texts. SOURCE is a run folder (its newest checkpoint is used), a checkpoint folder, "
    "a Hugging Face folder, or a safetensors file with config.json in the same folder. The "
    "text is encoded with the tokenizer of the run, or of the Hugging Face folder; without one, "
    "tokens are bytes. Of several prompts each text is written when all are complete, after a line "
    "with its number. A text ends at a token that ends it: eos_token_id of a Hugging Face folder, "
    "else "
    "that of the tokenizer. Keys and values of earlier tokens are kept, so that each token is "
    "computed once; GPUs compute all tokens for each new one.";

int pst_cli_generate(const pst_cli_call *call) {
    pst_generate_options o = {
        .size = sizeof o, .tokens = 256, .seed = 1, .temperature = 1.0, .top_p = 1.0};
    pst_option_list prompts = {0}, stop = {0};
    int json = 0, ignore_end = 0;
    o.repetition_penalty = 1.0;
    const pst_option rows[] = {
        {'p', "prompt", "TEXT", PST_OPTION_LIST, 0, 0,
         "Text to continue; a newline by default. May be given several times.", &prompts},
        {'t', "tokens", "N", PST_OPTION_INT, 1, PST_GENERATE_MAX,
         "Number of tokens to generate at most.", &o.tokens},
        {0, "stop", "TEXT", PST_OPTION_LIST, 0, 0,
         "Ends the output where this text would begin. May be given several times.", &stop},
        {0, "temperature", "T", PST_OPTION_FLOAT, 0, 100,
         "Divides the logits. 0: always the most likely token; 1: the model's own distribution.",
         &o.temperature},
        {'k', "top-k", "K", PST_OPTION_INT, 0, 1e9,
         "Sample from the K most likely tokens only; 0: from all.", &o.top_k},
        {0, "top-p", "P", PST_OPTION_FLOAT, 1e-6, 1,
         "Sample from the fewest most likely tokens whose probabilities add up to P; 1: from all.",
         &o.top_p},
        {0, "min-p", "P", PST_OPTION_FLOAT, 0, 1,
         "Sample from tokens with at least P times the largest probability; 0: from all.",
         &o.min_p},
        {0, "repetition-penalty", "R", PST_OPTION_FLOAT, 0.01, 100,
         "Divides positive logits of tokens that occur already by R, and multiplies negative ones; "
         "1: none.",
         &o.repetition_penalty},
        {'s', "seed", "SEED", PST_OPTION_INT, 0, 9007199254740992.0,
         "Seed of the sampling; the same seed gives the same text.", &o.seed},
        {0, "chat", "TEMPLATE", PST_OPTION_STRING, 0, 0,
         "Each prompt is a message of the user; the answer is written. chatml, llama3 or qwen; "
         "run: data.template of the run.",
         &o.chat},
        {0, "system", "TEXT", PST_OPTION_STRING, 0, 0,
         "System message; that of the template by default.", &o.system},
        {0, "ignore-eos", NULL, PST_OPTION_FLAG, 0, 0,
         "Go on after a token that ends the text, such as <|endoftext|>.", &ignore_end},
        {0, "context", "N", PST_OPTION_INT, 1, PST_GENERATE_MAX,
         "Tokens that the model reads at most; by default its own context. More only with rotary "
         "positions.",
         &o.context},
        {'n', "ranks", "RANKS", PST_OPTION_INT, 1, PST_RANKS_MAX,
         "Divide the model over this many ranks of this host: a pipeline, with parallel.tensor of "
         "the run as tensor ranks of each stage.",
         &o.ranks},
        PST_CLI_BASE(&o.base),
        {0, "json", NULL, PST_OPTION_FLAG, 0, 0,
         "Write a JSON object per prompt: prompt, text, numbers of tokens, and why the text ended.",
         &json},
    };
    const pst_command command = {"penstock generate", "SOURCE", summary, rows,
                                 sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 1, 1)) return pst_status_exit(PST_EINPUT);
    o.source = call->argv[1];
    o.prompts = prompts.item;
    o.n_prompts = (int64_t)prompts.n;
    o.stop = stop.item;
    o.n_stop = (int64_t)stop.n;
    o.json = json;
    o.ignore_end = ignore_end;
    o.argv = call->program_argv;
    if (o.ranks > 1) pst_cli_ignore_sigpipe();
    return pst_cli_end(pst_generate(&o, stdout));
}
