/* Numbers as text. The syntax is checked here and the conversion is done in the "C" locale,
 * since the calling program may have chosen one with a decimal comma. */
#include "config/number.h"
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static locale_t c_locale;

static void open_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

static locale_t plain_locale(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_locale);
    return c_locale;
}

static const char *digits(const char *at) {
    while (*at >= '0' && *at <= '9') at++;
    return at;
}

/* Returns the end of the number at the start of `text`, NULL if there is none. */
static const char *number_end(const char *text) {
    const char *at = text + (*text == '-' || *text == '+'), *whole = digits(at), *end = whole;
    if (*end == '.') end = digits(end + 1);
    if (end - at - (*whole == '.') < 1) return NULL;
    if (*end != 'e' && *end != 'E') return end;
    const char *exponent = end + 1 + (end[1] == '-' || end[1] == '+');
    return digits(exponent) > exponent ? digits(exponent) : end;
}

static int convert(const char *text, double *out) {
    locale_t plain = plain_locale();
    double value = plain ? strtod_l(text, NULL, plain) : strtod(text, NULL);
    if (!isfinite(value)) return 0;
    *out = value;
    return 1;
}

int pst_number_whole(const char *text, int64_t *out) {
    const char *at = text + (*text == '-' || *text == '+');
    if (digits(at) == at || *digits(at)) return 0;
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno) return 0;
    *out = value;
    return 1;
}

int pst_number_real(const char *text, double *out) {
    const char *end = number_end(text);
    return end && !*end && convert(text, out);
}

int pst_number_share(const char *text, double *out) {
    const char *end = number_end(text);
    int percent = end && strcmp(end, "%") == 0;
    double value;
    if (!end || (*end && !percent) || !convert(text, &value) || value < 0) return 0;
    if (percent ? value > 100 : value >= 1) return 0;
    *out = percent ? value / 100 : value;
    return 1;
}

int pst_number_bytes(const char *text, double *out) {
    const char *end = number_end(text), *units = "KMGT";
    double value, unit = 1;
    if (!end || !convert(text, &value) || value < 0) return 0;
    if (*end) {
        const char *found = strchr(units, *end);
        if (!found || (end[1] && strcmp(end + 1, "iB") != 0)) return 0;
        unit = ldexp(1, 10 * (int)(found - units + 1));
    }
    if (!isfinite(value * unit)) return 0;
    *out = floor(value * unit);
    return 1;
}

int pst_number_count(const char *text, double *out) {
    static const char units[] = "KMBT";
    const char *end = number_end(text), *found;
    double value;
    if (!end || !convert(text, &value) || value <= 0) return 0;
    if (*end) {
        found = strchr(units, *end);
        if (!found || end[1]) return 0;
        for (const char *unit = units; unit <= found; unit++) value *= 1000;
    }
    if (!isfinite(value)) return 0;
    *out = value;
    return 1;
}

int pst_number_rate(const char *text, double *out) {
    static const char prefixes[] = "kKMGT";
    const char *end = number_end(text), *prefix;
    double value, unit = 1;
    if (!end || !convert(text, &value) || value < 0) return 0;
    if (*end && (prefix = strchr(prefixes, *end)) != NULL) {
        int power = prefix - prefixes < 2 ? 1 : (int)(prefix - prefixes);
        int binary = end[1] == 'i';
        for (int i = 0; i < power; i++) unit *= binary ? 1024 : 1000;
        end += 1 + binary;
    }
    if (*end == 'b') unit /= 8;
    if ((*end || unit != 1) && ((*end != 'b' && *end != 'B') || strcmp(end + 1, "/s") != 0))
        return 0;
    if (!isfinite(value * unit)) return 0;
    *out = value * unit;
    return 1;
}

int pst_number_time(const char *text, double *out) {
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    const char *end = number_end(text);
    double value;
    if (!end || !convert(text, &value) || value < 0) return 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(end, units[i].name) && isfinite(value * units[i].ns)) {
            *out = value * units[i].ns;
            return 1;
        }
    return 0;
}

int pst_number_seconds(const char *text, double *out) {
    static const struct {
        char name;
        double seconds;
    } units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
    enum { N_UNIT = sizeof units / sizeof *units };
    double sum = 0;
    int next = 0; /* each unit once, from the largest on */
    for (const char *at = text; at == text || *at;) {
        const char *end = number_end(at);
        double value;
        if (!end || (at != text && *at == '+') || !convert(at, &value) || value < 0) return 0;
        if (at == text && !*end) next = N_UNIT - 1; /* without a unit: seconds */
        while (*end && next < N_UNIT && units[next].name != *end) next++;
        if (next == N_UNIT || (at != text && !*end)) return 0;
        sum += value * units[next++].seconds;
        at = end + (*end != 0);
    }
    if (!isfinite(sum)) return 0;
    *out = sum;
    return 1;
}

const char *pst_number_print(double value, char out[PST_NUMBER_BYTES]) {
    locale_t plain = plain_locale(), before = plain ? uselocale(plain) : (locale_t)0;
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(out, PST_NUMBER_BYTES, "%.*g", precision, value);
        if (strtod(out, NULL) == value) break;
    }
    if (plain) uselocale(before);
    return out;
}
