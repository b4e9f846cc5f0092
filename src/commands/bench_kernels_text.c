/* The results of suite `kernels` as tables, one per precision. */
#include "commands/bench.h"
#include <string.h>

static double real_of(json_t *j, const char *key) {
    return json_number_value(json_object_get(j, key));
}

static const char *text_of(json_t *j, const char *key) {
    return json_string_value(json_object_get(j, key));
}

static void print_row(json_t *row, FILE *out) {
    double seconds = real_of(row, "seconds"), poll = real_of(row, "longest_poll_s");
    fprintf(out, "%-14s %-34s %s %6.0f %10.3f %9.1f %8.1f %8.1f %7.2f", text_of(row, "op"),
            text_of(row, "shape"), text_of(row, "pass"), real_of(row, "count"), seconds * 1e3,
            real_of(row, "flops") / seconds * 1e-9, real_of(row, "bytes") / seconds * 1e-9,
            real_of(row, "roofline") * 100, real_of(row, "share") * 100);
    if (poll > 0) fprintf(out, " %7.2f", poll * 1e3);
    fputc('\n', out);
}

/* Rates in per cent of the fastest algorithm's. */
static void print_products(json_t *list, FILE *out) {
    double least[2] = {100, 100};
    json_t *row;
    size_t i;
    if (!json_array_size(list)) return;
    fprintf(out, "%-72s %8s %10s %8s %9s\n",
            "algorithms of matrix products: rate in % of the fastest", "fastest ms", "candidates",
            "first", "measured");
    json_array_foreach(list, i, row) {
        double best = real_of(row, "best_s"), share[2] = {best / real_of(row, "first_s") * 100,
                                                          best / real_of(row, "measured_s") * 100};
        for (int k = 0; k < 2; k++)
            if (share[k] < least[k]) least[k] = share[k];
        fprintf(out, "%-72s %10.4f %10.0f %8.1f %9.1f\n", text_of(row, "of"), best * 1e3,
                real_of(row, "tried"), share[0], share[1]);
    }
    fprintf(out,
            "lowest rate of all products: %.1f %% with parallel.products=library, %.1f %% with "
            "measured\n",
            least[0], least[1]);
}

static void print_precision(json_t *p, int host, FILE *out) {
    json_t *row;
    size_t i;
    double peak = real_of(p, "peak_flops") * 1e-9,
           memory = real_of(p, "bandwidth_bytes_per_s") * 1e-9;
    if (host)
        fprintf(out,
                "\n%s: FMA peak %.1f GFLOP/s, one core alone %.1f GFLOP/s; memory bandwidth %.1f "
                "GB/s\n",
                text_of(p, "precision"), peak, real_of(p, "peak_flops_per_core") * 1e-9, memory);
    else
        fprintf(out,
                "\n%s: large matrix product %.1f GFLOP/s; large copy %.1f GB/s (bytes read and "
                "written)\n",
                text_of(p, "precision"), peak, memory);
    fprintf(out, "%-14s %-34s   %6s %10s %9s %8s %8s %7s %7s\n", "operator", "shape", "times", "ms",
            "GFLOP/s", "GB/s", "roof %", "step %", "poll ms");
    json_array_foreach(json_object_get(p, "rows"), i, row) print_row(row, out);
    if (real_of(p, "products_s") > 0)
        fprintf(out,
                "matrix products: %.1f ms per step at %.1f GFLOP/s, %.1f %% of the peak; other "
                "operators: %.1f %% of the step\n",
                real_of(p, "products_s") * 1e3, real_of(p, "products_flops_per_s") * 1e-9,
                real_of(p, "products_of_peak") * 100, real_of(p, "rest_share") * 100);
    print_products(json_object_get(p, "products"), out);
}

void pst_bench_kernels_print(json_t *found, FILE *out) {
    json_t *list = json_object_get(found, "precisions"), *p;
    size_t i;
    int host = !strcmp(text_of(found, "device"), "cpu");
    if (host)
        fprintf(out, "kernels: %s, %s, %.0f threads, %s\n", text_of(found, "model"),
                text_of(found, "isa"), real_of(found, "threads"), text_of(found, "clock"));
    else
        fprintf(out, "kernels: %s, %s %s, %s clock\n", text_of(found, "model"),
                text_of(found, "device"), text_of(found, "device_model"), text_of(found, "clock"));
    json_array_foreach(list, i, p) print_precision(p, host, out);
    double first = real_of(json_array_get(list, 0), "products_s"),
           second = real_of(json_array_get(list, 1), "products_s");
    if (second > 0)
        fprintf(out, "matrix products: bf16 is %.2f x as fast as fp32\n", first / second);
}
