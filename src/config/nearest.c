/* "Did you mean": the nearest name by edit distance. Swapped neighbours count once, letter case
 * is ignored. */
#include "penstock/option.h"
#include <ctype.h>
#include <string.h>

enum { LONGEST = 48 }; /* longer words are not mistyped names */

static int same(char a, char b) { return tolower((unsigned char)a) == tolower((unsigned char)b); }

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Optimal string alignment distance. */
static size_t distance(const char *a, size_t n, const char *b, size_t m) {
    size_t d[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= n; i++) d[i][0] = i;
    for (size_t j = 0; j <= m; j++) d[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        for (size_t j = 1; j <= m; j++) {
            d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1,
                            d[i - 1][j - 1] + !same(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[n][m];
}

const char *pst_did_you_mean(const char *word, const char *const *name, size_t n) {
    size_t length = strnlen(word, LONGEST + 1), best = LONGEST;
    const char *found = NULL;
    if (!length || length > LONGEST) return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t other = strlen(name[i]), shorter = least(length, other);
        if (!other || other > LONGEST) continue;
        size_t far = distance(word, length, name[i], other),
               allowed = (length > other ? length : other) / 3;
        if (shorter >= 3 && strncasecmp(word, name[i], shorter) == 0) {
            far = least(far, 2);
            allowed = 2;
        } /* batchsize */
        if (far <= (allowed ? allowed : 1) && far < shorter && far < best) {
            best = far;
            found = name[i];
        }
    }
    return found;
}
