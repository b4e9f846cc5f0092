/* The options of a budget, and what follows from the step of a layout. See budget.h. */
#include "planning/budget.h"
#include "config/number.h"
#include <math.h>
#include <string.h>
#include <strings.h>

/* A device fails once in so many hours: 419 unexpected interruptions in 54 days of 16,384 H100
 * (Llama Team 2024, The Llama 3 Herd of Models, section 3.3.4). */
#define MTBF_HOURS (54.0 * 24 * 16384 / 419)
/* From a failure to the next step, without the steps that are repeated: with it, the same source's
 * cluster makes progress in 92% of its time (there: more than 90%). */
#define RESTART_S 600.0
/* Bytes per second of one node: the same source's storage, 2 TB/s for 2,048 nodes. */
#define STORAGE 1e9

/* --- options ---------------------------------------------------------------------------------- */

static int is_given(const char *text) { return text && *text; }

/* Copies the first item of a list "a,b,c", "" if it is empty or too long, and returns the rest;
 * NULL: it was the last one. */
static const char *take_item(const char *list, char item[64]) {
    const size_t n = strcspn(list, ",");
    snprintf(item, 64, "%.*s", (int)(n < 64 ? n : 0), list);
    return list[n] ? list + n + 1 : NULL;
}

static pst_status read_counts(const char *list, pst_budget_request *r) {
    char item[64];
    int64_t count;
    for (const char *at = list; at;) {
        at = take_item(at, item);
        if (!pst_number_whole(item, &count) || count < 1 || count > PST_PLANNED_RANKS_MAX)
            return pst_fail(PST_EINPUT,
                            "--gpus %.80s: expected numbers of devices from 1 to %d, such as "
                            "64,128,256",
                            list, PST_PLANNED_RANKS_MAX);
        if (r->n_count && count <= r->count[r->n_count - 1])
            return pst_fail(PST_EINPUT, "--gpus %.80s: expected ascending numbers", list);
        if (r->n_count == PST_BUDGET_COUNTS)
            return pst_fail(PST_EINPUT, "--gpus: expected at most %d numbers", PST_BUDGET_COUNTS);
        r->count[r->n_count++] = (uint32_t)count;
    }
    return PST_OK;
}

static pst_status read_price(const char *item, pst_budget_request *r) {
    const char *equals = strchr(item, '=');
    const size_t n = equals ? (size_t)(equals - item) : 0;
    double price;
    if (!n || n >= sizeof r->price->kind || !pst_number_real(equals + 1, &price) || price < 0)
        return pst_fail(PST_EINPUT,
                        "--price %.40s: expected a kind of device and the price of an hour, such "
                        "as h100=2.5",
                        item);
    if (r->n_price == PST_BUDGET_PRICES)
        return pst_fail(PST_EINPUT, "--price: expected at most %d prices", PST_BUDGET_PRICES);
    snprintf(r->price[r->n_price].kind, sizeof r->price->kind, "%.*s", (int)n, item);
    r->price[r->n_price].per_hour = price;
    for (uint32_t i = 0; i < r->n_price; i++)
        if (!strcasecmp(r->price[i].kind, r->price[r->n_price].kind))
            return pst_fail(PST_EINPUT, "--price: %s is given twice", r->price[i].kind);
    r->n_price++;
    return PST_OK;
}

static pst_status read_prices(const char *list, pst_budget_request *r) {
    char item[64];
    for (const char *at = list; at;) {
        at = take_item(at, item);
        PST_TRY(read_price(item, r));
    }
    return PST_OK;
}

/* An option that only makes sense for a number of tokens. */
static pst_status check_alone(const pst_plan_run_options *o) {
    const struct {
        const char *name;
        int given;
    } option[] = {{"--days", o->days > 0},
                  {"--price", is_given(o->price)},
                  {"--gpus", is_given(o->gpus)},
                  {"--mtbf", o->mtbf > 0},
                  {"--storage", o->storage > 0}};
    for (size_t i = 0; i < sizeof option / sizeof *option; i++)
        if (option[i].given)
            return pst_fail(PST_EINPUT, "%s needs --tokens, the length of the training",
                            option[i].name);
    return PST_OK;
}

pst_status pst_budget_read(const pst_plan_run_options *o, pst_budget_request *request) {
    pst_budget_request r = {.days = o->days};
    if (!is_given(o->tokens)) return check_alone(o);
    if (!pst_number_count(o->tokens, &r.tokens) || r.tokens < 1 || r.tokens > 1e18)
        return pst_fail(PST_EINPUT,
                        "--tokens: expected a number of tokens from 1 to 1e18, such as 300B, 1.5T "
                        "or 2e9, found '%.40s'",
                        o->tokens);
    r.mtbf_s = 3600 * (o->mtbf > 0 ? o->mtbf : MTBF_HOURS);
    r.storage = o->storage > 0 ? o->storage : STORAGE;
    if (is_given(o->gpus)) PST_TRY(read_counts(o->gpus, &r));
    if (is_given(o->price)) PST_TRY(read_prices(o->price, &r));
    if (r.n_count && o->ranks)
        return pst_fail(PST_EINPUT, "--gpus and -n both give the number of devices; omit -n");
    *request = r;
    return PST_OK;
}

/* --- what follows from a step ----------------------------------------------------------------- */

/* Checkpoints at the interval that loses least (Young 1974): the square root of twice the time to
 * write one, times the mean time between failures. Training is taken to wait while one is written;
 * a failure repeats half an interval, on average. */
static void set_failures(const pst_budget *b, pst_budget_row *row) {
    const double mtbf_s = b->request.mtbf_s / row->devices;
    row->write_s = b->checkpoint_bytes / (b->request.storage * row->nodes);
    row->every_s = fmax(sqrt(2 * row->write_s * mtbf_s), row->write_s);
    const double lost = (row->every_s / 2 + RESTART_S) / mtbf_s;
    row->effective = lost < 1 ? (1 - lost) / (1 + row->write_s / row->every_s) : 0;
}

void pst_budget_follow(const pst_budget *b, pst_budget_row *row) {
    const double computing_s = b->steps * row->step_s;
    set_failures(b, row);
    if (row->effective <= 0) {
        row->days = row->failures = row->device_hours = NAN;
        return;
    }
    row->days = computing_s / row->effective / 86400;
    row->device_hours = row->days * 24 * row->devices;
    row->failures = row->device_hours * 3600 / b->request.mtbf_s;
}
