/* See html.h. */
#include "report/html.h"
#include "base/utf8.h"
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

void pst_html_text(FILE *out, const char *text) {
    for (const char *at = text; *at;) {
        int n = pst_utf8_bytes(at);
        if (*at == '&') fputs("&amp;", out);
        else if (*at == '<') fputs("&lt;", out);
        else if (*at == '>') fputs("&gt;", out);
        else if (*at == '"') fputs("&quot;", out);
        else if (*at == '\'') fputs("&#39;", out);
        else if (n == 0) fputc('?', out);
        else if ((unsigned char)*at < ' ' && *at != '\n') fputc(' ', out);
        else fwrite(at, 1, (size_t)n, out);
        at += n ? n : 1;
    }
}

static const char *missing(char text[PST_HTML_NUMBER]) { return strcpy(text, "–"); }

const char *pst_html_whole(double value, char text[PST_HTML_NUMBER]) {
    char digits[PST_HTML_NUMBER];
    if (isnan(value)) return missing(text);
    if (fabs(value) >= 1e18) {
        snprintf(text, PST_HTML_NUMBER, "%.3g", value);
        return text;
    }
    int n = snprintf(digits, sizeof digits, "%.0f", fabs(value)), used = 0;
    if (value <= -0.5) text[used++] = '-';
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = 0;
    return text;
}

/* Three significant digits. */
static int decimals(double value) {
    if (value >= 99.95) return 0;
    return value >= 9.995 ? 1 : 2;
}

static const char *scaled(double value, double base, const char *const *unit, int n_unit,
                          char text[PST_HTML_NUMBER]) {
    int u = 0;
    if (isnan(value)) return missing(text);
    for (; u + 1 < n_unit && value >= base * 0.9995; u++) value /= base;
    if (value >= 1e6) snprintf(text, PST_HTML_NUMBER, "%.3g %s", value, unit[u]);
    else snprintf(text, PST_HTML_NUMBER, "%.*f %s", u ? decimals(value) : 0, value, unit[u]);
    return text;
}

const char *pst_html_bytes(double bytes, char text[PST_HTML_NUMBER]) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    return scaled(bytes, 1024, unit, 5, text);
}

const char *pst_html_count(double value, char text[PST_HTML_NUMBER]) {
    if (value < 1e5) return pst_html_whole(value, text);
    static const char *const unit[] = {"M", "G", "T"};
    if (isnan(value)) return missing(text);
    value /= 1e6;
    int u = 0;
    for (; u < 2 && value >= 999.5; u++) value /= 1000;
    if (value >= 1e6) snprintf(text, PST_HTML_NUMBER, "%.3g %s", value, unit[u]);
    else snprintf(text, PST_HTML_NUMBER, "%.*f %s", decimals(value), value, unit[u]);
    return text;
}

const char *pst_html_ms(double ms, char text[PST_HTML_NUMBER]) {
    if (isnan(ms)) return missing(text);
    if (ms >= 1e9) snprintf(text, PST_HTML_NUMBER, "%.3g s", ms * 1e-3);
    else if (ms >= 999.5) snprintf(text, PST_HTML_NUMBER, "%.*f s", decimals(ms * 1e-3), ms * 1e-3);
    else if (ms >= 0.9995 || ms == 0)
        snprintf(text, PST_HTML_NUMBER, "%.*f ms", ms == 0 ? 0 : decimals(ms), ms);
    else snprintf(text, PST_HTML_NUMBER, "%.*f µs", decimals(ms * 1e3), ms * 1e3);
    return text;
}

const char *pst_html_span(double seconds, char text[PST_HTML_NUMBER]) {
    if (isnan(seconds) || seconds < 0) return missing(text);
    if (seconds >= 1e8) snprintf(text, PST_HTML_NUMBER, "%.3g s", seconds);
    else if (seconds < 0.995) pst_html_ms(seconds * 1e3, text);
    else if (seconds < 59.95) snprintf(text, PST_HTML_NUMBER, "%.1f s", seconds);
    else {
        long s = lround(seconds);
        if (s < 3600) snprintf(text, PST_HTML_NUMBER, "%ld min %02ld s", s / 60, s % 60);
        else snprintf(text, PST_HTML_NUMBER, "%ld h %02ld min", s / 3600, s % 3600 / 60);
    }
    return text;
}

const char *pst_html_share(double share, char text[PST_HTML_NUMBER]) {
    if (isnan(share)) return missing(text);
    if (fabs(share) >= 100) snprintf(text, PST_HTML_NUMBER, "%.3g%%", share * 100);
    else snprintf(text, PST_HTML_NUMBER, "%.1f%%", share * 100);
    return text;
}

const char *pst_html_time(double unix_seconds, char text[PST_HTML_NUMBER]) {
    struct tm tm;
    if (!(unix_seconds >= 0 && unix_seconds < 253402300800.0)) return missing(text); /* year 9999 */
    time_t t = (time_t)unix_seconds;
    gmtime_r(&t, &tm);
    strftime(text, PST_HTML_NUMBER, "%Y-%m-%d %H:%M:%S UTC", &tm);
    return text;
}
