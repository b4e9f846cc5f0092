/* penstock convert */
#include "cli.h"

int pst_cli_convert(const pst_cli_call *call) {
    int force = 0;
    const pst_option rows[] = {
        {'f', "force", NULL, PST_OPTION_FLAG, 0, 0, "Replace the model in HF_DIR if there is one.",
         &force},
    };
    const pst_command command = {
        "penstock convert", "CHECKPOINT HF_DIR",
        "Writes the weights of a checkpoint, or of the newest checkpoint of a run, as a Hugging "
        "Face folder of GPT-2, for llama of Llama, Qwen 2 or Mistral, or of BERT: "
        "model.safetensors, config.json and the files of the run's tokenizer.",
        rows, 1};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 2, 2)) return pst_status_exit(PST_EINPUT);
    return pst_cli_end(pst_export_hf(call->argv[1], call->argv[2], force));
}
