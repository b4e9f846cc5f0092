/* Reads and writes profiles as YAML; each reads what the other writes. An unknown, repeated or
 * missing key, a wrong type or an invalid duration is EINPUT with file, line and column. The file
 * is not trusted. */
#include "base/file.h"
#include "config/yaml.h"
#include "partition/cost/profile.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { MAX_FILE = 16 << 20, MAX_PART = 65535 };

/* Names of the flush's and the executor's rows. */
static const struct {
    const char *name;
    pst_profile_kind kind;
    int sized; /* 1: elements are required; 0: not allowed */
} works[] = {{"norm", PST_PROFILE_NORM, 1},     {"step", PST_PROFILE_STEP, 1},
             {"reduce", PST_PROFILE_REDUCE, 1}, {"launch", PST_PROFILE_LAUNCH, 0},
             {"gather", PST_PROFILE_GATHER, 0}, {"pack", PST_PROFILE_PACK, 1}};
enum { N_WORK = sizeof works / sizeof *works };

/* --- reading ---------------------------------------------------------------------------------- */

static pst_status read_text(const pst_yaml *y, const yaml_node_t *node, char *to, size_t bytes) {
    const char *text = pst_yaml_text(node);
    if (node && !*text) return pst_yaml_fail(y, node, "expected ", "a string");
    if (strlen(text) >= bytes) return pst_yaml_fail(y, node, "this string is too long", "");
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == '"' || *c == '\\')
            return pst_yaml_fail(y, node, "expected ",
                                 "a string without quotes, backslashes and control characters");
    snprintf(to, bytes, "%s", text);
    return PST_OK;
}

static pst_status read_machine(pst_yaml *y, const yaml_node_t *node, pst_profile_head *h) {
    static const pst_yaml_key row[] = {{"cpu", 1},   {"isa", 1},    {"cpus", 1}, {"threads", 1},
                                       {"ranks", 1}, {"device", 0}, {"model", 0}};
    const yaml_node_t *value[PST_YAML_KEYS];
    PST_TRY(pst_yaml_mapping(y, node, row, 7, value));
    PST_TRY(read_text(y, value[5], h->device, sizeof h->device));
    PST_TRY(read_text(y, value[6], h->model, sizeof h->model));
    PST_TRY(read_text(y, value[0], h->cpu, sizeof h->cpu));
    PST_TRY(read_text(y, value[1], h->isa, sizeof h->isa));
    PST_TRY(pst_yaml_u32(y, value[2], 1, MAX_PART, &h->cpus));
    PST_TRY(pst_yaml_u32(y, value[3], 1, MAX_PART, &h->threads));
    return pst_yaml_u32(y, value[4], 1, MAX_PART, &h->ranks);
}

/* ns, busy_ns: at least one is required. */
typedef struct {
    pst_profile_kind kind;
    const char *text;
    uint64_t size;
} measured;
static pst_status read_times(pst_yaml *y, const yaml_node_t *node, const yaml_node_t *const ns[2],
                             pst_profile *p, measured of) {
    uint32_t before, after;
    double value;
    if (!ns[0] && !ns[1]) return pst_yaml_fail(y, node, "missing key: ", "ns");
    pst_profile_rows(p, &before);
    for (int busy = 0; busy < 2; busy++) {
        if (!ns[busy]) continue;
        PST_TRY(pst_yaml_real(y, ns[busy], 1e-3, 1e15, &value));
        PST_TRY(pst_profile_set(p, of.kind, of.text, of.size, busy, value));
    }
    pst_profile_rows(p, &after);
    return after > before ? PST_OK : pst_yaml_fail(y, node, "this entry is given twice", "");
}

static pst_status read_operator(pst_yaml *y, const yaml_node_t *node, pst_profile *p) {
    static const pst_yaml_key row[] = {{"op", 1}, {"ns", 0}, {"busy_ns", 0}};
    const yaml_node_t *value[PST_YAML_KEYS];
    char text[PST_PROFILE_TEXT];
    PST_TRY(pst_yaml_mapping(y, node, row, 3, value));
    PST_TRY(read_text(y, value[0], text, sizeof text));
    return read_times(y, node, value + 1, p, (measured){PST_PROFILE_PASS, text, 0});
}

static pst_status read_message(pst_yaml *y, const yaml_node_t *node, pst_profile *p) {
    static const pst_yaml_key row[] = {{"bytes", 1}, {"ns", 0}, {"busy_ns", 0}, {"parts", 0}};
    const yaml_node_t *value[PST_YAML_KEYS];
    uint64_t bytes;
    uint32_t parts;
    char text[16] = "";
    PST_TRY(pst_yaml_mapping(y, node, row, 4, value));
    PST_TRY(pst_yaml_bytes(y, value[0], &bytes));
    if (value[3]) {
        PST_TRY(pst_yaml_u32(y, value[3], 2, MAX_PART, &parts));
        snprintf(text, sizeof text, "%u", parts);
    }
    return read_times(
        y, node, value + 1, p,
        (measured){value[3] ? PST_PROFILE_EXCHANGE : PST_PROFILE_MESSAGE, text, bytes});
}

static pst_status read_work(pst_yaml *y, const yaml_node_t *node, pst_profile *p) {
    static const pst_yaml_key row[] = {{"work", 1}, {"ns", 0}, {"busy_ns", 0}, {"elements", 0}};
    const yaml_node_t *value[PST_YAML_KEYS];
    uint64_t elements = 0;
    int i = 0;
    PST_TRY(pst_yaml_mapping(y, node, row, 4, value));
    while (i < N_WORK && strcmp(works[i].name, pst_yaml_text(value[0]))) i++;
    if (i == N_WORK)
        return pst_yaml_fail(y, value[0], "expected ", "norm, step, reduce, launch or gather");
    if (works[i].sized && !value[3]) return pst_yaml_fail(y, node, "missing key: ", "elements");
    if (!works[i].sized && value[3])
        return pst_yaml_fail(y, value[3], "elements is not allowed for ", works[i].name);
    if (value[3]) PST_TRY(pst_yaml_whole(y, value[3], 1, UINT64_MAX, &elements));
    return read_times(y, node, value + 1, p, (measured){works[i].kind, "", elements});
}

static pst_status read_rows(pst_yaml *y, const yaml_node_t *list, const char *of, pst_profile *p,
                            pst_status (*read)(pst_yaml *y, const yaml_node_t *node,
                                               pst_profile *p)) {
    uint32_t n;
    if (!list) return PST_OK;
    PST_TRY(pst_yaml_list(y, list, 0, PST_PROFILE_ROWS, of, &n));
    for (uint32_t i = 0; i < n; i++) PST_TRY(read(y, pst_yaml_item(y, list, i), p));
    return PST_OK;
}

static pst_status read_profile(pst_yaml *y, const yaml_node_t *root, pst_profile **profile) {
    static const pst_yaml_key row[] = {{"machine", 1},   {"precision", 1}, {"optimizer", 1},
                                       {"operators", 1}, {"messages", 0},  {"work", 0},
                                       {"penstock", 0},  {"date", 0}};
    const yaml_node_t *value[PST_YAML_KEYS];
    pst_profile_head head = {0};
    PST_TRY(pst_yaml_mapping(y, root, row, 8, value));
    PST_TRY(read_machine(y, value[0], &head));
    PST_TRY(read_text(y, value[1], head.precision, sizeof head.precision));
    PST_TRY(read_text(y, value[2], head.optimizer, sizeof head.optimizer));
    PST_TRY(read_text(y, value[6], head.penstock, sizeof head.penstock));
    PST_TRY(read_text(y, value[7], head.date, sizeof head.date));
    PST_TRY(pst_profile_open(&head, profile));
    PST_TRY(read_rows(y, value[3], "operators, such as {op: \"add F 4x64x128 4x64x128\", ns: 1200}",
                      *profile, read_operator));
    PST_TRY(read_rows(y, value[4], "messages, such as {bytes: 65536, ns: 20000}", *profile,
                      read_message));
    return read_rows(y, value[5], "work, such as {work: norm, elements: 1048576, ns: 90000}",
                     *profile, read_work);
}

pst_status pst_profile_parse(const char *text, size_t bytes, const char *file,
                             pst_profile **profile) {
    pst_yaml y;
    const yaml_node_t *root;
    pst_profile *p = NULL;
    PST_TRY(pst_yaml_open(text, bytes, file, "a profile", &y, &root));
    pst_status status = read_profile(&y, root, &p);
    pst_yaml_close(&y);
    if (status == PST_OK) *profile = p;
    else pst_profile_close(p);
    return status;
}

static pst_status parse_into(const char *text, size_t bytes, const char *file, void *profile) {
    return pst_profile_parse(text, bytes, file, profile);
}

pst_status pst_profile_load(const char *path, pst_profile **profile) {
    return pst_file_parse(path, MAX_FILE, parse_into, profile);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void print_times(const pst_profile_row *r, FILE *out) {
    if (r->ns[0] > 0) fprintf(out, ", ns: %.6g", r->ns[0]);
    if (r->ns[1] > 0) fprintf(out, ", busy_ns: %.6g", r->ns[1]);
    fputs("}\n", out);
}

static void print_row(const pst_profile_row *r, FILE *out) {
    if (r->kind == PST_PROFILE_PASS) fprintf(out, "  - {op: \"%s\"", r->text);
    if (r->kind == PST_PROFILE_MESSAGE) fprintf(out, "  - {bytes: %" PRIu64, r->size);
    if (r->kind == PST_PROFILE_EXCHANGE)
        fprintf(out, "  - {parts: %s, bytes: %" PRIu64, r->text, r->size);
    for (int i = 0; i < N_WORK; i++)
        if (r->kind == works[i].kind) {
            fprintf(out, "  - {work: %s", works[i].name);
            if (works[i].sized) fprintf(out, ", elements: %" PRIu64, r->size);
        }
    print_times(r, out);
}

static int is_message(const pst_profile_row *r) {
    return r->kind == PST_PROFILE_MESSAGE || r->kind == PST_PROFILE_EXCHANGE;
}

pst_status pst_profile_print(const pst_profile *p, FILE *out) {
    const pst_profile_head *h = pst_profile_head_of(p);
    uint32_t n, operators = 0, messages = 0;
    const pst_profile_row *row = pst_profile_rows(p, &n);
    for (uint32_t i = 0; i < n; i++) {
        operators += row[i].kind == PST_PROFILE_PASS;
        messages += is_message(row + i);
    }
    if (*h->penstock) fprintf(out, "penstock: \"%s\"\n", h->penstock);
    if (*h->date) fprintf(out, "date: \"%s\"\n", h->date);
    fprintf(out,
            "# ns: measured on one rank; busy_ns: measured while `ranks` ranks compute at once\n");
    fprintf(out, "machine: {cpu: \"%s\", isa: %s, cpus: %u, threads: %u, ranks: %u", h->cpu, h->isa,
            h->cpus, h->threads, h->ranks);
    if (*h->device) fprintf(out, ", device: \"%s\"", h->device);
    if (*h->model) fprintf(out, ", model: \"%s\"", h->model);
    fputs("}\n", out);
    fprintf(out, "precision: %s\noptimizer: %s\noperators:%s\n", h->precision, h->optimizer,
            operators ? "" : " []");
    for (uint32_t i = 0; i < n; i++) {
        if (i == operators && messages) fputs("messages:\n", out);
        if (i == operators + messages) fputs("work:\n", out);
        print_row(row + i, out);
    }
    return fflush(out) || ferror(out) ? pst_fail(PST_ENOMEM, "cannot write: %s", strerror(errno))
                                      : PST_OK;
}
