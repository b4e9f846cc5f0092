/* See bytes.h. */
#include "base/bytes.h"
#include <math.h>
#include <stdio.h>

const char *pst_bytes_text(uint64_t bytes, pst_bytes_unit smallest, pst_bytes_unit largest,
                           int decimals, char text[PST_BYTES_TEXT]) {
    static const char *const name[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = (int)smallest;
    while (unit < (int)largest && bytes >> 10 * (unit + 1)) unit++;
    snprintf(text, PST_BYTES_TEXT, "%.*f %s", unit == PST_BYTES ? 0 : decimals,
             ldexp((double)bytes, -10 * unit), name[unit]);
    return text;
}
