/* penstock convert */
#include "cli.h"
#include <string.h>

static int ends_in(const char *text, const char *end) {
    const size_t n = strlen(text);
    const size_t m = strlen(end);
    return n > m && !strcmp(text + n - m, end);
}

int pst_cli_convert(const pst_cli_call *call) {
    int force = 0;
    const char *type = "";
    const pst_option rows[] = {
        {0, "type", "TYPE", PST_OPTION_STRING, 0, 0,
         "Type of the matrices in a file: f32, bf16 or, in GGUF, f16; f32 by default.", &type},
        {'f', "force", NULL, PST_OPTION_FLAG, 0, 0,
         "Replace the file, or the model in the folder, if there is one.", &force},
    };
    const pst_command command = {
        "penstock convert", "CHECKPOINT HF_DIR|FILE.gguf|FILE.bin",
        "Writes the weights of a checkpoint, or of the newest checkpoint of a run. To a folder: "
        "for "
        "Hugging Face's transformers, as GPT-2, for llama as Llama, Qwen 2 or Mistral, or as BERT: "
        "model.safetensors, config.json and the files of the run's tokenizer. To FILE.gguf: gpt or "
        "llama with its tokenizer, byte-level BPE, SentencePiece or bytes, for llama.cpp. To "
        "FILE.bin: gpt for "
        "llm.c.",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 2, 2)) return pst_status_exit(PST_EINPUT);
    const char *to = call->argv[2];
    if (ends_in(to, ".gguf") || ends_in(to, ".bin"))
        return pst_cli_end(pst_export_file(call->argv[1], to, type, force));
    if (*type) return pst_cli_wrong("--type is for files .gguf and .bin; folders have f32");
    return pst_cli_end(pst_export_hf(call->argv[1], to, force));
}
