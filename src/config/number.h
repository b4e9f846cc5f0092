/* Numbers as text, the same in every locale. */
#ifndef PST_CONFIG_NUMBER_H
#define PST_CONFIG_NUMBER_H
#include <stdint.h>

enum { PST_NUMBER_BYTES = 32 };

/* Both return 1 and set *out if the whole of `text` is a decimal number that fits (no blanks,
 * hex, inf or nan). */
int pst_number_whole(const char *text, int64_t *out);
int pst_number_real(const char *text, double *out);
/* Bytes: a number >= 0 with an optional K, M, G or T (powers of 1024), as in 512M, 1.5G or 8GiB. */
int pst_number_bytes(const char *text, double *out);
/* A count, with an optional K, M, B or T (powers of 1000): 300B, 1.5T, 2e12. Above 0. */
int pst_number_count(const char *text, double *out);
/* A share: a number below 1, or a percentage up to 100%: 0.05, 5%. */
int pst_number_share(const char *text, double *out);
/* A rate in bytes per second: 450GB/s, 400Gb/s (bits), 25GiB/s, or a plain number of bytes; a time
 * in nanoseconds: 10us, 500ns, 0.1ms, 1s. Not negative. */
int pst_number_rate(const char *text, double *out);
int pst_number_time(const char *text, double *out);
/* A time in seconds: a number >= 0, with an optional unit: 3600, 3600s, 90m, 8h, 1.5d. */
int pst_number_seconds(const char *text, double *out);
/* The shortest of %.15g, %.16g and %.17g that reads back as the same value. */
const char *pst_number_print(double value, char out[PST_NUMBER_BYTES]);
#endif
