/* Bytes in words: "12.5 GiB". */
#ifndef PST_BASE_BYTES_H
#define PST_BASE_BYTES_H
#include <stdint.h>

typedef enum { PST_BYTES, PST_KIB, PST_MIB, PST_GIB, PST_TIB } pst_bytes_unit;
enum { PST_BYTES_TEXT = 32 };
/* In the largest unit from `least` to `most` of which there is one, else in `least`, with so many
 * decimals; bytes have none. Returns text. */
const char *pst_bytes_text(uint64_t bytes, pst_bytes_unit least, pst_bytes_unit most, int decimals,
                           char text[PST_BYTES_TEXT]);
#endif
