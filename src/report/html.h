/* Text and numbers of a report as HTML. All text from files must be printed with these functions,
 * which escape markup. */
#ifndef PST_REPORT_HTML_H
#define PST_REPORT_HTML_H
#include <stddef.h>
#include <stdio.h>

enum { PST_HTML_NUMBER = 40 };

/* Prints text with markup characters escaped; replaces control characters by blanks and invalid
 * UTF-8 by question marks. */
void pst_html_text(FILE *out, const char *text);
/* Format a number into `text` and return it; NaN gives "–". Thousands are grouped. */
const char *pst_html_whole(double value, char text[PST_HTML_NUMBER]);
const char *pst_html_bytes(double bytes, char text[PST_HTML_NUMBER]); /* 16.5 MiB */
const char *pst_html_ms(double ms, char text[PST_HTML_NUMBER]);       /* 74.8 ms, 1.25 s, 310 µs */
const char *pst_html_span(double seconds, char text[PST_HTML_NUMBER]); /* 2 h 05 min, 3 min 10
                                                                          s, 7.5 s, 30 ms */
const char *pst_html_share(double share, char text[PST_HTML_NUMBER]);  /* 0.155: 15.5% */
const char *pst_html_count(double value, char text[PST_HTML_NUMBER]);  /* 834304: 0.83 M */
/* "2026-01-31 13:05:59 UTC". */
const char *pst_html_time(double unix_seconds, char text[PST_HTML_NUMBER]);
#endif
