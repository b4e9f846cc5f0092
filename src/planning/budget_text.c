/* A budget as text, as JSON, and for the page of the plan. See budget.h. */
#include "planning/budget.h"
#include "base/bytes.h"
#include "base/plural.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = 32, LAYOUT = 48, RANGE = 2 * CELL };

/* "8 x 4 x 2 zb-v", as stages x replicas x tensor ranks. */
static const char *layout_of(const pst_budget_row *row, char text[LAYOUT]) {
    snprintf(text, LAYOUT, "%u x %u x %u %s", row->pipeline, row->data, row->tensor, row->schedule);
    return text;
}

/* Three significant digits, and no less than whole numbers: 0.123, 12.3, 1,234. */
static const char *number(double value, char text[CELL]) {
    if (value >= 1000 || isnan(value)) return pst_planning_whole(value, text);
    snprintf(text, CELL, value < 99.95 ? "%.3g" : "%.0f", value);
    return text;
}

/* 7.5 s, 12.3 min, 5.2 h. */
static const char *span(double seconds, char text[CELL]) {
    if (seconds < 100) snprintf(text, CELL, "%.2g s", seconds);
    else if (seconds < 6000) snprintf(text, CELL, "%.3g min", seconds / 60);
    else snprintf(text, CELL, "%.3g h", seconds / 3600);
    return text;
}

static const char *bytes(double value, char text[CELL]) {
    if (isnan(value)) return strcpy(text, "-");
    return pst_bytes_text((uint64_t)fmax(value, 0), PST_KIB, PST_TIB, 2, text);
}

static const char *share(double value, char text[CELL]) {
    if (isnan(value)) return strcpy(text, "-");
    snprintf(text, CELL, "%.1f%%", value * 100);
    return text;
}

/* --- text ------------------------------------------------------------------------------------- */

static void print_training(const pst_budget *b, FILE *out) {
    char tokens[CELL], steps[CELL], step[CELL], parameters[CELL], best[CELL];
    fprintf(out, "\n%s tokens: %s step%s of %s tokens\n",
            pst_planning_short(b->request.tokens, tokens),
            pst_planning_count((uint64_t)b->steps, steps), b->steps == 1 ? "" : "s",
            pst_planning_short(b->step_tokens, step));
    fprintf(out,
            "            Chinchilla: %s for %s trained parameters (20 each); this is %.3g times "
            "that\n",
            pst_planning_short(PST_BUDGET_CHINCHILLA * b->parameters, best),
            pst_planning_short(b->parameters, parameters),
            b->request.tokens / (PST_BUDGET_CHINCHILLA * b->parameters));
}

/* "5.28-7.44": the days with the range of the step. */
static const char *range(const pst_budget_row *r, char text[RANGE]) {
    char low[CELL], high[CELL];
    if (isnan(r->days_low)) return "-";
    snprintf(text, RANGE, "%s-%s", number(r->days_low, low), number(r->days_high, high));
    return text;
}

static void print_times(const pst_budget *b, FILE *out) {
    char layout[LAYOUT], step[CELL], rate[CELL], mfu[CELL], days[CELL], hours[CELL], cost[CELL],
        energy[CELL], likely[RANGE];
    fputs("devices  stages x replicas x tensor   step s   tokens/s    MFU     days    expected  "
          "device hours        cost        MWh\n",
          out);
    for (uint32_t i = 0; i < b->n_row; i++) {
        const pst_budget_row *r = &b->row[i];
        if (!r->fits) {
            fprintf(out, "%7u  infeasible: %s\n", r->devices, r->why);
            continue;
        }
        fprintf(out, "%7u  %-26s %8s %10s %6s %8s %11s %13s %11s %10s%s\n", r->devices,
                layout_of(r, layout), number(r->step_s, step),
                pst_planning_whole(r->tokens_per_s, rate), share(r->mfu, mfu),
                number(r->days, days), range(r, likely), pst_planning_whole(r->device_hours, hours),
                pst_planning_whole(r->cost, cost), number(r->kwh / 1000, energy),
                r->timed_out ? " *" : "");
    }
}

static void print_failures(const pst_budget *b, FILE *out) {
    char left[CELL], write[CELL], every[CELL], failures[CELL], effective[CELL];
    fputs("devices  memory left  checkpoint in      every  failures  effective\n", out);
    for (uint32_t i = 0; i < b->n_row; i++) {
        const pst_budget_row *r = &b->row[i];
        if (r->fits)
            fprintf(out, "%7u  %11s  %13s  %9s  %8s  %9s\n", r->devices, bytes(r->free_bytes, left),
                    span(r->write_s, write), span(r->every_s, every), number(r->failures, failures),
                    share(r->effective, effective));
    }
}

static void print_prices(const pst_budget_request *r, FILE *out) {
    fputs("prices      ", out);
    for (uint32_t i = 0; i < r->n_price; i++)
        fprintf(out, "%s%s %.4g", i ? ", " : "", r->price[i].kind, r->price[i].per_hour);
    fputs(r->n_price ? " per hour and device\n" : "none: --price KIND=PRICE gives the cost\n", out);
}

static void print_choice(const pst_budget *b, FILE *out) {
    const pst_budget_row *r = &b->row[b->chosen];
    if (b->n_row < 2 && b->request.days <= 0) return;
    if (!r->fits) {
        fputs("choice      none fits\n", out);
        return;
    }
    fprintf(out, "choice      %u device%s, printed above: ", r->devices, pst_plural(r->devices));
    if (b->request.days <= 0) fputs("the fastest of these\n", out);
    else if (b->in_time)
        fprintf(out, "the smallest of these that ends within %.4g days\n", b->request.days);
    else fprintf(out, "the fastest of these; none ends within %.4g days\n", b->request.days);
}

void pst_budget_text(const pst_budget *b, FILE *out) {
    char size[CELL];
    int stopped = 0;
    for (uint32_t i = 0; i < b->n_row; i++) stopped |= b->row[i].timed_out;
    print_training(b, out);
    print_times(b, out);
    print_failures(b, out);
    print_choice(b, out);
    print_prices(&b->request, out);
    fprintf(out,
            "checkpoint  %s, written at %.4g GB/s by each node (--storage); the best interval "
            "(Young 1974)\n",
            bytes(b->checkpoint_bytes, size), b->request.storage * 1e-9);
    fprintf(
        out,
        "failures    one in %s hours of a device (--mtbf), 10 min to restart; days, hours, cost "
        "and energy include them\n",
        pst_planning_whole(b->request.mtbf_s / 3600, size));
    fputs("energy      at the datasheets' maximum power of the devices, without hosts, network and "
          "cooling\n",
          out);
    if (stopped)
        fprintf(out,
                "*           search stopped after %.3g s: a longer one (--time-limit) may find a "
                "shorter step\n",
                b->limit_s);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *real(double value) { return isnan(value) ? json_null() : json_real(value); }

/* Adds a layout and what follows from its step. */
static int add_result(const pst_budget_row *r, json_t *j) {
    const struct {
        const char *key;
        double value;
    } of[] = {{"step_s", r->step_s},
              {"gap", r->gap},
              {"tokens_per_s", r->tokens_per_s},
              {"mfu", r->mfu},
              {"days", r->days},
              {"days_low", r->days_low},
              {"days_high", r->days_high},
              {"device_hours", r->device_hours},
              {"cost", r->cost},
              {"kwh", r->kwh},
              {"free_bytes", r->free_bytes},
              {"checkpoint_s", r->write_s},
              {"checkpoint_every_s", r->every_s},
              {"failures", r->failures},
              {"effective", r->effective}};
    int failed = 0;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        failed |= json_object_set_new(j, of[i].key, real(of[i].value));
    json_t *layout = json_pack("{s:i,s:i,s:i,s:i,s:i,s:s}", "pipeline", (int)r->pipeline, "data",
                               (int)r->data, "tensor", (int)r->tensor, "micro_batch",
                               (int)r->micro_batch, "zero", (int)r->zero, "schedule", r->schedule);
    return failed || json_object_set_new(j, "layout", layout);
}

static json_t *row_of(const pst_budget_row *r) {
    json_t *j = json_pack("{s:i,s:i,s:b,s:s,s:b}", "devices", (int)r->devices, "nodes",
                          (int)r->nodes, "fits", r->fits, "why", r->why, "timed_out", r->timed_out);
    if (!j || !r->fits || !add_result(r, j)) return j;
    json_decref(j);
    return NULL;
}

json_t *pst_budget_json(const pst_budget *b) {
    json_t *rows = json_array();
    for (uint32_t i = 0; rows && i < b->n_row; i++)
        if (json_array_append_new(rows, row_of(&b->row[i])) != 0) {
            json_decref(rows);
            return NULL;
        }
    const pst_budget_request *r = &b->request;
    return json_pack("{s:f,s:f,s:f,s:f,s:f,s:o,s:f,s:f,s:i,s:b,s:o}", "tokens", r->tokens, "steps",
                     b->steps, "parameters", b->parameters, "chinchilla_tokens",
                     PST_BUDGET_CHINCHILLA * b->parameters, "checkpoint_bytes", b->checkpoint_bytes,
                     "deadline_days", r->days > 0 ? json_real(r->days) : json_null(), "mtbf_hours",
                     r->mtbf_s / 3600, "storage_bytes_per_s", r->storage, "chosen_devices",
                     (int)b->row[b->chosen].devices, "in_time", b->in_time, "counts", rows);
}

/* --- page ------------------------------------------------------------------------------------- */

static void fill_count(const pst_budget_row *from, pst_plan_count *to) {
    *to = (pst_plan_count){.devices = from->devices,
                           .fits = from->fits,
                           .step_s = from->step_s,
                           .tokens_per_s = from->tokens_per_s,
                           .mfu = from->mfu,
                           .days = from->days,
                           .device_hours = from->device_hours,
                           .cost = from->cost,
                           .kwh = from->kwh,
                           .free_bytes = from->free_bytes,
                           .write_s = from->write_s,
                           .every_s = from->every_s,
                           .failures = from->failures,
                           .effective = from->effective};
    snprintf(to->why, sizeof to->why, "%.*s", PST_PLAN_TEXT - 1, from->why);
    if (from->fits) layout_of(from, to->layout);
}

pst_status pst_budget_page(const pst_budget *b, pst_plan_page *page) {
    char tokens[CELL], steps[CELL], size[CELL], hours[CELL];
    page->count = calloc(b->n_row + 1, sizeof *page->count);
    if (!page->count) return pst_fail(PST_ENOMEM, "no memory for the report");
    page->n_count = b->n_row;
    for (uint32_t i = 0; i < b->n_row; i++) fill_count(&b->row[i], &page->count[i]);
    page->count[b->chosen].chosen = 1;
    snprintf(page->training, sizeof page->training,
             "%s tokens in %s steps; checkpoints of %s; one failure in %s hours of a device. "
             "Days, hours, cost and energy include failures; energy at the datasheets' maximum "
             "power.",
             pst_planning_short(b->request.tokens, tokens),
             pst_planning_count((uint64_t)b->steps, steps), bytes(b->checkpoint_bytes, size),
             pst_planning_whole(b->request.mtbf_s / 3600, hours));
    return PST_OK;
}
