/* penstock tokenize */
#include "cli.h"
#include <string.h>

int pst_cli_tokenize(const pst_cli_call *call) {
    int train = 0, cased = 0;
    const char *on_error = "stop";
    pst_tokenize_options o = {
        .size = sizeof o, .tokenizer = "", .output = "", .end = "", .field = "", .kind = ""};
    const pst_option rows[] = {
        {'t', "tokenizer", "PATH", PST_OPTION_STRING, 0, 0,
         "Tokenizer: a folder with, or one of, the files tokenizer.json, vocab.json (with "
         "merges.txt), encoder.json (with vocab.bpe), *.tiktoken, *.model (SentencePiece) and "
         "vocab.txt; byte: one token per byte.",
         &o.tokenizer},
        {0, "ids", NULL, PST_OPTION_FLAG, 0, 0,
         "Print the ids, separated by blanks, with one line for each file.", &o.ids},
        {'o', "output", "PREFIX", PST_OPTION_STRING, 0, 0,
         "Write the ids to PREFIX.bin and PREFIX.idx, Megatron's indexed data set, for data.kind "
         "tokens, with PREFIX.record.json, which tells what they are made of; each file is a "
         "document. With --train: where the "
         "tokenizer is written.",
         &o.output},
        {0, "special", NULL, PST_OPTION_FLAG, 0, 0,
         "Special tokens that are written out in the text, such as <|endoftext|>, become these "
         "tokens; otherwise they are text like any other.",
         &o.special},
        {'e', "end", "TOKEN", PST_OPTION_STRING, 0, 0,
         "Special token to append to each file, such as <|endoftext|>; none by default.", &o.end},
        {0, "field", "NAME", PST_OPTION_STRING, 0, 0,
         "Files *.jsonl, *.jsonl.gz and *.jsonl.zst: each line is an object of JSON, and its field "
         "NAME a document; by default they are text like any other.",
         &o.field},
        {0, "on-error", "stop|skip", PST_OPTION_STRING, 0, 0,
         "At a line without text in the field NAME: stop, or leave the line out and print how many "
         "were left out.",
         &on_error},
        {'f', "force", NULL, PST_OPTION_FLAG, 0, 0,
         "Replace files of --output that exist. Without it they are an error, unless they have the "
         "same tokens already.",
         &o.force},
        {0, "threads", "N", PST_OPTION_INT, 1, 64,
         "Threads that encode for --output; one for each processor by default.", &o.threads},
        {0, "train", NULL, PST_OPTION_FLAG, 0, 0,
         "Learn a byte-level BPE from the files, and write it to tokenizer.json in the folder of "
         "--output, or to the file of --output if its name ends in .json; by default to "
         "tokenizer.json in the current folder.",
         &train},
        {0, "kind", "bpe|wordpiece", PST_OPTION_STRING, 0, 0,
         "With --train: wordpiece learns BERT's WordPiece instead, in lower case, and writes "
         "vocab.txt (or a file .txt).",
         &o.kind},
        {0, "cased", NULL, PST_OPTION_FLAG, 0, 0,
         "Of --kind wordpiece: letters keep their case and accents.", &cased},
        {0, "vocabulary", "N", PST_OPTION_INT, 6, 1 << 24,
         "Number of ids to learn: 256 bytes, merges, and <|endoftext|>; or [PAD], [UNK], [CLS], "
         "[SEP], [MASK], the characters of the text, and merges.",
         &o.vocabulary},
    };
    const pst_command command = {
        "penstock tokenize", "FILE ...",
        "Encodes files with a tokenizer. Prints the number of tokens and the speed, or the ids; "
        "--output writes the ids; if it is interrupted, the same command continues there. A file "
        "is encoded whole, without special tokens; a file compressed by gzip or Zstandard is "
        "decompressed. With --train: learns a tokenizer.",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 1, (size_t)-1)) return pst_status_exit(PST_EINPUT);
    if (train != (o.vocabulary > 0))
        return pst_cli_wrong("tokenize: --train and --vocabulary N belong together");
    if (train && (*o.tokenizer || *o.end || o.ids || o.special || o.threads))
        return pst_cli_wrong("tokenize: --train learns a tokenizer; --tokenizer, --end, --ids, "
                             "--special and --threads are for encoding");
    o.skip = !strcmp(on_error, "skip");
    if (!o.skip && strcmp(on_error, "stop"))
        return pst_cli_wrong("tokenize: --on-error is stop or skip, not \"%s\"", on_error);
    if (o.skip && !*o.field) return pst_cli_wrong("tokenize: --on-error skip needs --field NAME");
    if (!train && (*o.kind || cased))
        return pst_cli_wrong("tokenize: --kind and --cased are for --train");
    o.cased = cased;
    if (train && !*o.output)
        o.output = strcmp(o.kind, "wordpiece") ? "tokenizer.json" : "vocab.txt";
    if (!train && !*o.tokenizer) return pst_cli_wrong("tokenize needs --tokenizer PATH");
    o.file = call->argv + 1;
    o.n_file = n;
    return pst_cli_end(pst_tokenize(&o, stdout));
}
