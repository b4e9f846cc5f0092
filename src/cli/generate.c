/* penstock generate */
#include "cli.h"

int pst_cli_generate(const pst_cli_call *call) {
    pst_generate_options o = {
        .size = sizeof o, .prompt = "\n", .tokens = 256, .top_k = 0, .seed = 1, .temperature = 1.0};
    const pst_option rows[] = {
        {'p', "prompt", "TEXT", PST_OPTION_STRING, 0, 0, "Text to continue; a newline by default.",
         &o.prompt},
        {'t', "tokens", "N", PST_OPTION_INT, 1, PST_GENERATE_MAX, "Number of tokens to generate.",
         &o.tokens},
        {0, "temperature", "T", PST_OPTION_FLOAT, 0, 100,
         "Divides the logits. 0: always the most likely token; 1: the model's own distribution.",
         &o.temperature},
        {'k', "top-k", "K", PST_OPTION_INT, 0, 1e9,
         "Sample from the K most likely tokens only; 0: from all.", &o.top_k},
        {'s', "seed", "SEED", PST_OPTION_INT, 0, 9007199254740992.0,
         "Seed of the sampling; the same seed gives the same text.", &o.seed},
    };
    const pst_command command = {
        "penstock generate", "SOURCE",
        "Continues a text. SOURCE is a run folder (its newest checkpoint is used), a checkpoint "
        "folder, a Hugging Face GPT-2 folder, or a safetensors file with config.json in the same "
        "folder. The text is encoded with the tokenizer of the run, or of the Hugging Face folder; "
        "without one, tokens are bytes.",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 1, 1)) return pst_status_exit(PST_EINPUT);
    o.source = call->argv[1];
    return pst_cli_end(pst_generate(&o, stdout));
}
