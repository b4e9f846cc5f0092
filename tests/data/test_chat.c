/* Conversations as samples: the text of each template, what is learned of it, cutting and padding,
 * broken lines, and a tokenizer without the special tokens of a template. */
#include "base/folder.h"
#include "data/data.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CONTEXT = 256, FIRST_SPECIAL = 256 };
static const char *const special[] = {
    "<|im_start|>",      "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>",
    "<|end_header_id|>", "<|eot_id|>", "<|endoftext|>"};
enum { N_SPECIAL = sizeof special / sizeof *special };

/* Byte-level BPE without merges: a byte is a token. "ab" is one, too, and "\n\n". */
static void put_tokenizer(const char *name, int n_special) {
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    fputs(
        "{\"model\": {\"type\": \"BPE\", \"merges\": [[\"a\", \"b\"], [\"\\u010a\", \"\\u010a\"]], "
        "\"vocab\": {\"ab\": 270, \"\\u010a\\u010a\": 271",
        f);
    for (int byte = 0, other = 0; byte < 256; byte++) {
        const int printable = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
        fprintf(f, ", \"\\u%04x\": %d", printable ? byte : 256 + other++, byte);
    }
    fputs("}}, \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
          "\"added_tokens\": [",
          f);
    for (int i = 0; i < n_special; i++)
        fprintf(f, "%s{\"id\": %d, \"content\": \"%s\"}", i ? ", " : "", FIRST_SPECIAL + i,
                special[i]);
    fputs("]}", f);
    fclose(f);
}

static int make(void **state) {
    if (folder_open(state)) return 1;
    put_tokenizer("tokenizer.json", N_SPECIAL);
    return 0;
}

static pst_data_config config_of(char **path, const char *template) {
    return (pst_data_config){.paths = path,
                             .n_path = 1,
                             .context = CONTEXT,
                             .seed = 3,
                             .tokenizer = "tokenizer.json",
                             .cache = "cache",
                             .vocabulary = 272,
                             .template = template};
}

static pst_data *open_data(const pst_data_config *c) {
    pst_data *d;
    if (pst_data_chat.open(c, &d) != PST_OK) fail_msg("%s", pst_error());
    return d;
}

typedef struct {
    int32_t tokens[CONTEXT], targets[CONTEXT];
} sample;

static sample get(pst_data *d, pst_split split, uint64_t i) {
    sample s;
    if (d->row->sample(d, split, i, (int32_t *[]){s.tokens, s.targets}) != PST_OK)
        fail_msg("%s", pst_error());
    return s;
}

/* Appends the text of a token. */
static void add_token(char *text, int32_t id) {
    if (id == 270) strcat(text, "ab");
    else if (id == 271) strcat(text, "\n\n");
    else if (id >= FIRST_SPECIAL) strcat(text, special[id - FIRST_SPECIAL]);
    else sprintf(text + strlen(text), "%c", (char)id);
}

/* The text of the sample, without its last token, and what is learned, as text. */
static void expect_text(const sample *s, const char *whole, const char *learned) {
    char text[8 * CONTEXT] = "", targets[8 * CONTEXT] = "";
    for (int i = 0; i < CONTEXT; i++) {
        add_token(text, s->tokens[i]);
        if (s->targets[i] >= 0) add_token(targets, s->targets[i]);
        if (s->targets[i] >= 0 && i + 1 < CONTEXT && s->tokens[i + 1])
            assert_int_equal(s->targets[i], s->tokens[i + 1]);
    }
    assert_string_equal(text, whole);
    assert_string_equal(targets, learned);
}

/* Without the last token: it is no input. */
static void templates(void **state) {
    (void)state;
    static const struct {
        const char *template, *text, *learned;
    } cases[] = {
        {"chatml",
         "<|im_start|>user\n hi <|im_end|>\n<|im_start|>assistant\nabc<|im_end|>\n"
         "<|im_start|>user\n?<|im_end|>\n<|im_start|>assistant\n\n\nd <|im_end|>",
         "abc<|im_end|>\n\n\nd <|im_end|>"},
        {"llama3",
         "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
         "<|start_header_id|>assistant<|end_header_id|>\n\nabc<|eot_id|>"
         "<|start_header_id|>user<|end_header_id|>\n\n?<|eot_id|>"
         "<|start_header_id|>assistant<|end_header_id|>\n\nd",
         "abc<|eot_id|>d<|eot_id|>"},
        {"qwen",
         "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."
         "<|im_end|>\n<|im_start|>user\n hi <|im_end|>\n<|im_start|>assistant\nabc<|im_end|>\n"
         "<|im_start|>user\n?<|im_end|>\n<|im_start|>assistant\n\n\nd <|im_end|>",
         "abc<|im_end|>\n\n\nd <|im_end|>"}};
    folder_write("chat.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \" hi \"}, "
                               "{\"role\": \"assistant\", \"content\": \"abc\"}, "
                               "{\"role\": \"user\", \"content\": \"?\"}, "
                               "{\"role\": \"assistant\", \"content\": \"\\n\\nd \"}]}\n");
    char *path[] = {"chat.jsonl"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pst_data_config c = config_of(path, cases[i].template);
        pst_data *d = open_data(&c);
        assert_int_equal(d->row->size(d, PST_SPLIT_TRAIN), 1);
        sample s = get(d, PST_SPLIT_TRAIN, 0);
        expect_text(&s, cases[i].text, cases[i].learned);
        uint64_t n = 0;
        for (int k = 0; k < CONTEXT; k++) n += s.targets[k] >= 0;
        assert_int_equal(d->row->targets(d, 0, 1), n);
        assert_int_equal(d->row->targets(d, 0, 3), 3 * n);
        d->row->close(d);
    }
}

/* A system message of one's own replaces the usual one; the text of a special token is that token.
 */
static void own_system(void **state) {
    (void)state;
    folder_write("system.jsonl", "{\"messages\": [{\"role\": \"system\", \"content\": \"S\"}, "
                                 "{\"role\": \"assistant\", \"content\": \"x<|endoftext|>\"}]}\n");
    char *path[] = {"system.jsonl"};
    const pst_data_config c = config_of(path, "qwen");
    pst_data *d = open_data(&c);
    sample s = get(d, PST_SPLIT_TRAIN, 0);
    expect_text(&s,
                "<|im_start|>system\nS<|im_end|>\n<|im_start|>assistant\nx<|endoftext|><|im_end|>",
                "x<|endoftext|><|im_end|>");
    d->row->close(d);
}

/* Answers of 1, 2, ... bytes: cut at the context, left out if nothing to learn remains, the last
 * ones held out. */
static void cut(void **state) {
    (void)state;
    enum { N = 40, HEADER = 11 /* <|im_start|>assistant\n */, SHORT = 30 };
    FILE *f = fopen("many.jsonl", "w");
    assert_non_null(f);
    for (int i = 1; i <= N; i++)
        fprintf(f, "{\"messages\": [{\"role\": \"assistant\", \"content\": \"%0*d\"}]}\n", i, 0);
    fputs("{\"messages\": [{\"role\": \"user\", \"content\": \"0123456789012345678901234567890\"}, "
          "{\"role\": \"assistant\", \"content\": \"late\"}]}\n",
          f);
    fclose(f);
    char *path[] = {"many.jsonl"};
    pst_data_config c = config_of(path, "chatml");
    c.context = SHORT;
    c.validation = 0.25;
    pst_data *d = open_data(&c);
    assert_int_equal(d->row->size(d, PST_SPLIT_TRAIN), N - N / 4);
    assert_int_equal(d->row->size(d, PST_SPLIT_VALIDATION), N / 4);
    for (uint64_t i = 0; i < N; i++) {
        const int trains = i < N - N / 4;
        sample s =
            get(d, trains ? PST_SPLIT_TRAIN : PST_SPLIT_VALIDATION, trains ? i : i - (N - N / 4));
        uint64_t n = 0;
        for (int k = 0; k < SHORT; k++) {
            assert_true(s.targets[k] < 0 || k >= HEADER - 1);
            n += s.targets[k] >= 0;
        }
        if (trains) assert_int_equal(n, d->row->targets(d, i, 1));
        else assert_int_equal(n, SHORT - HEADER + 1); /* 31 bytes and more */
    }
    d->row->close(d);
}

static void expect(const pst_data_config *c, const char *sentence) {
    pst_data *d = NULL;
    assert_int_equal(pst_data_chat.open(c, &d), PST_EINPUT);
    if (!strstr(pst_error(), sentence)) fail_msg("\"%s\" is not in \"%s\"", sentence, pst_error());
    assert_null(d);
}

static void refused(void **state) {
    static const struct {
        const char *line, *sentence;
    } broken[] = {
        {"{", "b.jsonl: line 2: not JSON"},
        {"{}", "line 2: no list of messages in the field \"messages\""},
        {"{\"messages\": []}", "line 2: the list of messages in the field \"messages\" is empty"},
        {"{\"messages\": {}}", "line 2: no list of messages in the field \"messages\""},
        {"{\"messages\": [{\"content\": \"a\"}]}", "message 1 has no text in the field \"role\""},
        {"{\"messages\": [{\"role\": \"user\"}]}",
         "message 1 has no text in the field \"content\""},
        {"{\"messages\": [{\"role\": \"tool\", \"content\": \"a\"}]}",
         "message 1 has the role \"tool\"; expected system, user or assistant"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}",
         "there is nothing to learn"}};
    (void)state;
    char *path[] = {"b.jsonl"};
    pst_data_config c = config_of(path, "chatml");
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        FILE *f = fopen("b.jsonl", "w");
        assert_non_null(f);
        fprintf(f, "{\"messages\": [{\"role\": \"assistant\", \"content\": \"%zu\"}]}\n%s\n", i,
                broken[i].line);
        fclose(f);
        c.lines.skip = 0;
        expect(&c, broken[i].sentence);
        c.lines.skip = 1;
        pst_data *d = open_data(&c);
        assert_int_equal(d->row->size(d, PST_SPLIT_TRAIN), 1);
        d->row->close(d);
    }
    c = config_of(path, "chatty");
    expect(&c, "data.template is chatty; expected chatml, llama3 or qwen");
    c = config_of(path, "chatml");
    c.context = 4;
    c.lines.skip = 1;
    expect(&c, "no conversation has an answer within the context of 4 tokens");
    put_tokenizer("two.json", 2);
    c.tokenizer = "two.json";
    c.template = "llama3";
    expect(&c, "the tokenizer has no special token \"<|begin_of_text|>\"");
    c.tokenizer = "byte";
    c.template = "qwen";
    expect(&c, "the tokenizer has no special token \"<|im_start|>\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(templates), cmocka_unit_test(own_system),
                                       cmocka_unit_test(cut), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, make, folder_close);
}
