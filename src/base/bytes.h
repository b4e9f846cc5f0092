/* Numbers of bytes as text: "12.5 GiB". */
#ifndef PST_BASE_BYTES_H
#define PST_BASE_BYTES_H
#include <stdint.h>

typedef enum { PST_BYTES, PST_KIB, PST_MIB, PST_GIB, PST_TIB } pst_bytes_unit;
enum { PST_BYTES_TEXT = 32 };
/* Writes `bytes` to `text` in the largest unit from `smallest` to `largest` that gives a number of
 * at least 1, else in `smallest`; with `decimals` digits after the point, none for bytes. Returns
 * text. */
const char *pst_bytes_text(uint64_t bytes, pst_bytes_unit smallest, pst_bytes_unit largest,
                           int decimals, char text[PST_BYTES_TEXT]);
#endif
