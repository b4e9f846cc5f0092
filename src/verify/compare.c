/* See compare.h. */
#include "verify/compare.h"
#include "pipeline/compile/share.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Scalars are compared within the tolerance / SCALAR_PART. One element in FLIPPED of a tensor may
 * have been on the other side of a kink. */
enum { SCALAR_PART = 10, FLIPPED = 256 };

static pst_compared_group group_of(pst_key_kind kind) {
    switch (kind) {
    case PST_KEY_DATA: return PST_GROUP_DATA;
    case PST_KEY_SUM: return PST_GROUP_GRADIENTS;
    case PST_KEY_SCALAR: return PST_GROUP_NUMBERS;
    case PST_KEY_PARAM:
    case PST_KEY_STATE: return PST_GROUP_WEIGHTS;
    default: return PST_GROUP_VALUES;
    }
}

/* --- names in a reference without tensor ranks ------------------------------------------------ */

static int ends_with(const char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end);
}

/* The name of the same tensor where nothing is split; 0: there is none, because a tensor rank has
 * a summand only. An operator x whose output is added is followed by x.sum; what a split operator
 * reads is x.copy. */
static int whole_name(const pst_recording *run, const pst_record *r, char out[PST_NAME_MAX + 32]) {
    static const char gradient_of[] = "gradient of ";
    snprintf(out, PST_NAME_MAX + 32, "%s", r->tensor);
    int gradient = !strncmp(out, gradient_of, sizeof gradient_of - 1);
    char *tensor = out + (gradient ? sizeof gradient_of - 1 : 0), node[PST_NAME_MAX];
    char *sum = strstr(tensor, ".sum.out"), *copy = strstr(tensor, ".copy.out");
    if (!copy) copy = strstr(tensor, ".enter.out");
    if (copy) {
        memmove(copy, strstr(copy, ".out"), strlen(strstr(copy, ".out")) + 1);
        return !gradient;
    }
    if (sum) {
        memmove(sum, sum + 4, strlen(sum + 4) + 1);
        return 1;
    }
    if (!ends_with(tensor, ".out")) return 1;
    snprintf(node, sizeof node, "%.*s", (int)(strlen(tensor) - 4), tensor);
    return gradient || !pst_recording_sums(run, node);
}

/* --- elements --------------------------------------------------------------------------------- */

/* The index in the whole parameter of element i of a tensor rank's part. */
static uint64_t whole_index(const pst_record *r, uint64_t i) {
    const pst_slice *s = &r->slice;
    if (s->held != PST_HELD_PART) return i;
    uint64_t inner = 1, count = s->range[0].count;
    for (uint32_t d = s->dim + 1; d < r->n_dim; d++) inner *= r->dim[d];
    uint64_t at = i / inner % r->dim[s->dim], outer = i / inner / r->dim[s->dim];
    uint64_t whole = s->range[at / count].first + at % count;
    return (outer * s->whole + whole) * inner + i % inner;
}

double pst_compare_largest(const pst_recorded *item) {
    double most = 0;
    for (uint64_t k = 0; k < item->record->stored; k++) {
        double x = fabs(pst_recorded_value(item, k));
        if (x > most) most = x;
    }
    return most;
}

int pst_compare_differs(double a, double b, double allowed) {
    if (a == b || (isnan(a) && isnan(b))) return 0;
    if (!isfinite(a) || !isfinite(b)) return 1; /* allowed may be infinite, too */
    return !(fabs(a - b) <= allowed);
}

typedef struct {
    const pst_recording *run, *reference;
    const pst_compare_options *o;
    pst_comparison *out;
} comparing;

static const pst_recorded *piece_of(const comparing *c, const pst_recorded *first, uint64_t index) {
    pst_key key = pst_key_of(first);
    uint64_t from = index / PST_PIECE * PST_PIECE;
    if (from == first->record->from) return first;
    key.from = from;
    return pst_recording_find(c->reference, &key);
}

/* An element that a kink has let through in one of the two runs only. */
static int can_be_flipped(double a, double b, double scale) {
    return isfinite(a) && isfinite(b) && fabs(a - b) <= scale;
}

/* Compares stored elements; *d: the first that differs. Returns the number compared. */
static uint64_t compare_elements(const comparing *c, const pst_recorded *item,
                                 const pst_recorded *expected, double *worst, pst_difference *d) {
    double scale =
        c->o->tolerance > 0 ? fmax(pst_compare_largest(expected), pst_compare_largest(item)) : 0;
    uint64_t n = 0, flips = c->o->kinks ? 1 + item->record->stored / FLIPPED : 0;
    int in_pieces =
        item->record->phase != PST_RECORD_FORWARD && item->record->phase != PST_RECORD_BACKWARD;
    in_pieces |= item->record->kind == PST_RECORD_PARAM;
    for (uint64_t k = 0; k < item->record->stored; k++) {
        uint64_t index = pst_recorded_index(item, k),
                 whole = c->o->joined ? whole_index(item->record, index) : index;
        const pst_recorded *piece = in_pieces ? piece_of(c, expected, whole) : expected;
        uint64_t at = piece ? pst_recorded_at(piece, whole) : UINT64_MAX;
        if (at == UINT64_MAX) continue;
        double a = pst_recorded_value(item, k), b = pst_recorded_value(piece, at);
        n++;
        if (scale > 0 && fabs(a - b) / scale > *worst) *worst = fabs(a - b) / scale;
        if (d->found || !pst_compare_differs(a, b, c->o->tolerance * scale)) continue;
        if (flips && can_be_flipped(a, b, scale)) {
            flips--;
            continue;
        }
        *d = (pst_difference){.found = 1,
                              .at = *item->record,
                              .expected = *piece->record,
                              .run = c->run->name,
                              .expected_run = c->reference->name,
                              .index = index,
                              .value = a,
                              .expected_value = b};
    }
    return n;
}

/* --- records ---------------------------------------------------------------------------------- */

static int same_extent(const pst_record *a, const pst_record *b) {
    return a->from == b->from && a->n == b->n && a->dtype == b->dtype;
}

static int same_shape(const pst_record *a, const pst_record *b) {
    return a->n_dim == b->n_dim && !memcmp(a->dim, b->dim, a->n_dim * sizeof *a->dim);
}

/* Whether the two hold the same numbers: parts of parameters may have other shapes. */
static int comparable(const comparing *c, const pst_record *r, const pst_record *expected) {
    int param = c->o->joined && r->slice.held == PST_HELD_PART;
    if (!param && !same_shape(r, expected)) return 0;
    return !(c->o->joined && r->slice.partial && r->phase == PST_RECORD_BACKWARD);
}

/* A number that follows from the run file alone has the same bits whatever the tolerance. */
static int always_equal(const pst_record *r) {
    static const char *const names[] = {"tokens",         "loss scale",      "learning rate",
                                        "optimizer step", "correction of m", "correction of v"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (r->kind == PST_RECORD_SCALAR && !strcmp(r->tensor, names[i])) return 1;
    return 0;
}

/* The loss and the norm are of many elements, whose differences average out; but not if sums lack
 * whole elements (a tolerance of 1 or more). */
static double tolerance_of(const pst_compare_options *o, const pst_record *r) {
    int scalar = r->kind == PST_RECORD_SCALAR;
    double within = o->tolerance;
    if (o->tolerance == 0 || always_equal(r)) return 0;
    if (r->phase == PST_RECORD_BACKWARD) within = o->gradients;
    if (r->phase == PST_RECORD_GRADIENT || (scalar && strcmp(r->tensor, "loss") != 0))
        within = o->sums;
    return within / (scalar && within < 1 ? SCALAR_PART : 1);
}

void pst_compare_print(const pst_compare_options *o, char text[PST_COMPARE_TEXT]) {
    int used =
        snprintf(text, PST_COMPARE_TEXT, "tolerance %.0e of the largest element", o->tolerance);
    if (o->gradients > o->tolerance)
        used += snprintf(text + used, PST_COMPARE_TEXT - (size_t)used, ", of gradients %.0e",
                         o->gradients);
    if (o->kinks)
        used += snprintf(text + used, PST_COMPARE_TEXT - (size_t)used, " (1 element in %d: 1)",
                         FLIPPED);
    if (o->sums > o->gradients)
        snprintf(text + used, PST_COMPARE_TEXT - (size_t)used, ", of sums of gradients %.0e",
                 o->sums);
}

static int is_gradient(const pst_record *r) {
    return r->phase == PST_RECORD_BACKWARD || r->phase == PST_RECORD_GRADIENT;
}

static int is_accumulator(const pst_record *r) {
    return r->phase == PST_RECORD_BACKWARD && strstr(r->tensor, ", use ") != NULL;
}

static int is_selected(const comparing *c, const pst_recorded *item) {
    const pst_record *r = item->record;
    if (r->step < c->o->first_step || r->step >= c->o->end_step) return 0;
    if (r->kind == PST_RECORD_READ || r->kind == PST_RECORD_REPEATED) return 0;
    if (is_accumulator(r) && !c->o->accumulators) return 0;
    return r->phase != PST_RECORD_END || c->o->weights_after;
}

/* "gradient of x, sum 2" is version 2 of "gradient of x", whose length is *base. */
static uint32_t version_of(const char *name, int *base) {
    const char *sum = strstr(name, ", sum ");
    *base = sum ? (int)(sum - name) : (int)strlen(name);
    return sum ? (uint32_t)strtoul(sum + strlen(", sum "), NULL, 10) : 0;
}

static void name_version(const char *name, int base, uint32_t version,
                         char out[PST_NAME_MAX + 32]) {
    char text[PST_NAME_MAX + 32];
    snprintf(text, sizeof text, "%.*s", base, name);
    if (version) snprintf(out, PST_NAME_MAX + 32, "%.*s, sum %u", PST_NAME_MAX, text, version);
    else snprintf(out, PST_NAME_MAX + 32, "%s", text);
}

/* The last version of a gradient, to which all readers of the tensor have contributed. */
static uint32_t last_version(const pst_recording *in, pst_key key, const char *name, int base) {
    char text[PST_NAME_MAX + 32];
    uint32_t last = 0;
    for (key.name = text;; last++) {
        name_version(name, base, last + 1, text);
        if (!pst_recording_find(in, &key)) return last;
    }
}

/* Where tensor ranks add what several operators contribute, the gradient is written once, and in
 * the reference in several versions: only the last ones are the same. 0: this is not the last one.
 */
static int match_version(const comparing *c, const pst_recorded *item, const pst_key *key,
                         char name[PST_NAME_MAX + 32]) {
    int own, base;
    const uint32_t version = version_of(item->record->tensor, &own);
    version_of(name, &base);
    if (strncmp(name, "gradient of ", 12) != 0) return 1;
    const uint32_t run = last_version(c->run, pst_key_of(item), item->record->tensor, own),
                   reference = last_version(c->reference, *key, name, base);
    if (run == reference) return 1;
    char last[PST_NAME_MAX + 32];
    name_version(name, base, reference, last);
    memcpy(name, last, sizeof last);
    return version == run;
}

/* The record of the reference with the same numbers; NULL: there is none. */
static const pst_recorded *find_expected(const comparing *c, const pst_recorded *item,
                                         char name[PST_NAME_MAX + 32]) {
    pst_key key = pst_key_of(item);
    if (c->o->joined) {
        if (!whole_name(c->run, item->record, name)) return NULL;
        key.name = name;
        key.tensor = 0;
        key.from = whole_index(item->record, item->record->from) / PST_PIECE * PST_PIECE;
        if (key.kind == PST_KEY_VALUE && !match_version(c, item, &key, name)) return NULL;
    }
    const pst_recorded *found = pst_recording_find(c->reference, &key);
    if (found || !item->record->from) return found;
    key.from = key.from / PST_PIECE * PST_PIECE;
    return pst_recording_find(c->reference, &key);
}

static void compare_one(const comparing *c, const pst_recorded *item) {
    char name[PST_NAME_MAX + 32];
    const pst_recorded *expected = find_expected(c, item, name);
    if (!expected || !comparable(c, item->record, expected->record)) return;
    pst_compared_group group = group_of(pst_key_of(item).kind);
    int part = c->o->joined && item->record->slice.held == PST_HELD_PART;
    int whole = same_extent(item->record, expected->record) && !part;
    c->out->tensors[group]++;
    if (whole && item->record->digest == expected->record->digest) return;
    pst_difference d = {0};
    comparing exact = *c;
    pst_compare_options own = *c->o;
    own.tolerance = tolerance_of(c->o, item->record);
    own.kinks = own.kinks && own.tolerance > 0 && is_gradient(item->record);
    exact.o = &own;
    uint64_t n = compare_elements(&exact, item, expected, c->out->worst + group, &d);
    if (!d.found && whole && (exact.o->tolerance == 0 || !n))
        d = (pst_difference){.found = 1,
                             .at = *item->record,
                             .expected = *expected->record,
                             .run = c->run->name,
                             .expected_run = c->reference->name,
                             .index = UINT64_MAX};
    c->out->different[group] += (uint64_t)d.found;
    pst_difference_keep(&c->out->first, &d);
}

void pst_compare(const pst_recording *run, const pst_recording *reference,
                 const pst_compare_options *options, pst_comparison *out) {
    const comparing c = {run, reference, options, out};
    for (size_t i = 0; i < run->n; i++)
        if (is_selected(&c, run->item + i)) compare_one(&c, run->item + i);
}

uint64_t pst_comparison_tensors(const pst_comparison *c) {
    uint64_t n = 0;
    for (int g = 0; g < PST_GROUP_COUNT; g++) n += c->tensors[g];
    return n;
}

uint64_t pst_comparison_different(const pst_comparison *c) {
    uint64_t n = 0;
    for (int g = 0; g < PST_GROUP_COUNT; g++) n += c->different[g];
    return n;
}
