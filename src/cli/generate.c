/* penstock generate */
#include "cli.h"

int pst_cli_generate(const pst_cli_call *call) {
    pst_generate_options o = {
        .size = sizeof o, .prompt = "\n", .tokens = 256, .top_k = 0, .seed = 1, .temperature = 1.0};
    const pst_option rows[] = {
        {'p', "prompt", "TEXT", PST_OPTION_STRING, 0, 0,
         "The text to continue; a new line by default.", &o.prompt},
        {'t', "tokens", "N", PST_OPTION_INT, 1, PST_GENERATE_MAX, "How many tokens to add.",
         &o.tokens},
        {0, "temperature", "T", PST_OPTION_FLOAT, 0, 100,
         "0: always the most likely token; 1: as the model says.", &o.temperature},
        {'k', "top-k", "K", PST_OPTION_INT, 0, 1e9,
         "Choose among the K most likely tokens; 0: among all.", &o.top_k},
        {'s', "seed", "SEED", PST_OPTION_INT, 0, 9007199254740992.0,
         "Of the random choice: same seed, same text.", &o.seed},
    };
    const pst_command command = {"penstock generate", "SOURCE",
                                 "Continues a text. SOURCE is a run folder (its newest "
                                 "checkpoint), a checkpoint folder, or a "
                                 "Hugging Face GPT-2 folder or safetensors file with config.json "
                                 "beside it, whose tokens are bytes.",
                                 rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 1, 1)) return pst_status_exit(PST_EINPUT);
    o.source = call->argv[1];
    return pst_cli_end(pst_generate(&o, stdout));
}
