/* Numbers in lists of the run file. Declared in prepare.h. */
#include "prepare/prepare.h"
#include <math.h>
#include <stdlib.h>

/* 0: not a number within these bounds. */
static int read_number(const char *text, double least, double most, double *x) {
    char *end;
    *x = strtod(text, &end);
    return end != text && !*end && *x >= least && *x <= most;
}

pst_status pst_prepare_number(const char *key, const char *text, double least, double most,
                              double *out) {
    double x;
    if (!read_number(text, least, most, &x))
        return pst_fail(PST_EINPUT, "%s: expected a number from %.10g to %.10g, found '%.40s'", key,
                        least, most, text);
    *out = x;
    return PST_OK;
}

pst_status pst_prepare_whole(const char *key, const char *text, uint32_t least, uint32_t most,
                             uint32_t *out) {
    double x;
    if (!read_number(text, least, most, &x) || floor(x) != x)
        return pst_fail(PST_EINPUT, "%s: expected a whole number from %u to %u, found '%.40s'", key,
                        least, most, text);
    *out = (uint32_t)x;
    return PST_OK;
}
