/* Rows with more boxes than can be drawn: each row in columns of equal time; each column shows,
 * from top to bottom, the shares of what the rank did in it. The empty part is idle time. */
#include "report/step_rows.h"
#include <math.h>
#include <string.h>

/* Heights are integer multiples of 1 / LEVELS of a row, so that columns with nearly equal shares
 * become one box. */
enum { COLUMNS = 300, LEVELS = 32 };

typedef struct {
    /* top of each kind, in levels */
    int from[PST_REPORT_TRANSFER], to[PST_REPORT_TRANSFER];
} column;

static void share_out(const pst_report_slice *s, size_t n, double end,
                      double share[COLUMNS][PST_REPORT_TRANSFER]) {
    double width = end / COLUMNS;
    memset(share, 0, COLUMNS * sizeof *share);
    for (size_t i = 0; i < n; i++) {
        if (s[i].kind >= PST_REPORT_TRANSFER) continue;
        for (int c = (int)fmax(s[i].start / width, 0); c < COLUMNS && c * width < s[i].end; c++) {
            double from = fmax(s[i].start, c * width), to = fmin(s[i].end, (c + 1) * width);
            if (to > from) share[c][s[i].kind] += (to - from) / width;
        }
    }
}

static void stack(const double *share, column *to) {
    double sum = 0;
    for (int k = 0; k < PST_REPORT_TRANSFER; k++) {
        to->from[k] = (int)lround(fmin(sum, 1) * LEVELS);
        sum += share[k];
        to->to[k] = (int)lround(fmin(sum, 1) * LEVELS);
    }
}

static void draw_kind(const column *c, int kind, uint32_t row, const char *css, FILE *out) {
    double level = (double)PST_STEP_ROWS_BOX / LEVELS;
    int any = 0;
    for (int first = 0, end; first < COLUMNS; first = end) {
        int from = c[first].from[kind], to = c[first].to[kind];
        for (end = first + 1; end < COLUMNS && c[end].from[kind] == from && c[end].to[kind] == to;)
            end++;
        if (to == from) continue;
        if (!any++) fprintf(out, "<path class=\"%s\" d=\"", css);
        long a = lround((double)first * PST_STEP_ROWS_WIDTH / COLUMNS),
             b = lround((double)end * PST_STEP_ROWS_WIDTH / COLUMNS);
        fprintf(out, "M%ld %gh%ldv%gh-%ldz", a, row * PST_STEP_ROWS_ROW + 1 + from * level, b - a,
                (to - from) * level, b - a);
    }
    if (any) fputs("\"/>", out);
}

void pst_step_rows_draw_folded(const pst_report_slice *s, size_t n, uint32_t row, double end,
                               const char *const *css, FILE *out) {
    double share[COLUMNS][PST_REPORT_TRANSFER];
    column columns[COLUMNS];
    share_out(s, n, end, share);
    for (int c = 0; c < COLUMNS; c++) stack(share[c], &columns[c]);
    for (int k = 0; k < PST_REPORT_TRANSFER; k++) draw_kind(columns, k, row, css[k], out);
}
