/* penstock eval */
#include "cli.h"

static const char summary[] =
    "Evaluates a trained model. SOURCE: as for penstock generate. Without --data, --words and "
    "--choices: the validation split of the run, and its eval.sets. Each set can have a name: "
    "NAME=FILE. Perplexities are per token and per byte of the text; choices are also made by the "
    "likelihood per byte of an ending.";

int pst_cli_eval(const pst_cli_call *call) {
    pst_eval_options o = {.size = sizeof o};
    pst_option_list text = {0}, words = {0}, choices = {0};
    int json = 0;
    const pst_option rows[] = {
        {'d', "data", "FILE", PST_OPTION_LIST, 0, 0,
         "Loss and perplexity on this text, or loss and accuracy on these texts with labels, read "
         "as data.paths are. May be given several times.",
         &text},
        {0, "words", "FILE", PST_OPTION_LIST, 0, 0,
         "Accuracy in the prediction of each line's last word, from the words before it; in files "
         "of JSON Lines, of the field \"text\". May be given several times.",
         &words},
        {0, "choices", "FILE", PST_OPTION_LIST, 0, 0,
         "Accuracy in the choice of the most likely ending, in JSON Lines: \"ctx\", \"endings\", "
         "\"label\" (from 0). May be given several times.",
         &choices},
        {0, "field", "NAME", PST_OPTION_STRING, 0, 0,
         "Of a model that gives labels: the column of CSV, or field of JSON Lines, with the text; "
         "by default data.field of the run.",
         &o.field},
        {0, "label", "NAME", PST_OPTION_STRING, 0, 0,
         "The same with the label; by default data.label of the run.", &o.label},
        {'n', "limit", "N", PST_OPTION_INT, 0, 1e15,
         "Use at most N lines of a file, or N samples spread over a text; 0: all.", &o.limit},
        {0, "context", "N", PST_OPTION_INT, 1, PST_GENERATE_MAX,
         "Tokens of a sample at most; by default the model's context, for texts on a Hugging Face "
         "folder at most 2048. More than the model's context only with rotary positions.",
         &o.context},
        PST_CLI_BASE(&o.base),
        {0, "json", NULL, PST_OPTION_FLAG, 0, 0, "Write a JSON object per set.", &json},
    };
    const pst_command command = {"penstock eval", "SOURCE", summary, rows,
                                 sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 1, 1)) return pst_status_exit(PST_EINPUT);
    o.source = call->argv[1];
    o.text = text.item;
    o.n_text = (int64_t)text.n;
    o.words = words.item;
    o.n_words = (int64_t)words.n;
    o.choices = choices.item;
    o.n_choices = (int64_t)choices.n;
    o.json = json;
    return pst_cli_end(pst_eval(&o, stdout));
}
