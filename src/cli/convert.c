/* penstock convert */
#include "cli.h"

int pst_cli_convert(const pst_cli_call *call) {
    pst_convert_options o = {.size = sizeof o, .type = ""};
    int force = 0;
    const pst_option rows[] = {
        {0, "type", "TYPE", PST_OPTION_STRING, 0, 0,
         "Type of the matrices in a file: f32, bf16 or, in GGUF, f16; f32 by default.", &o.type},
        PST_CLI_BASE(&o.base),
        {'f', "force", NULL, PST_OPTION_FLAG, 0, 0,
         "Replace the file, or the model in the folder, if there is one.", &force},
    };
    const pst_command command = {
        "penstock convert", "CHECKPOINT HF_DIR|FILE.gguf|FILE.bin",
        "Writes the weights of a checkpoint, or of the newest checkpoint of a run. To a folder: "
        "for Hugging Face's transformers, as GPT-2, for llama as Llama, Qwen 2 or Mistral, or as "
        "BERT: "
        "model.safetensors, config.json and the files of the run's tokenizer. To FILE.gguf: gpt or "
        "llama with its tokenizer, byte-level BPE, SentencePiece or bytes, for llama.cpp. To "
        "FILE.bin: gpt for "
        "llm.c.",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 2, 2)) return pst_status_exit(PST_EINPUT);
    o.checkpoint = call->argv[1];
    o.to = call->argv[2];
    o.replace = force;
    return pst_cli_end(pst_convert(&o));
}
