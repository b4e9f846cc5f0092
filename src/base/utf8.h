/* Texts from outside, such as names of files, as UTF-8, which JSON and HTML insist on. */
#ifndef PST_BASE_UTF8_H
#define PST_BASE_UTF8_H

/* Bytes of the character that starts here, 1 to 4; 0 when it is not UTF-8 (overlong, a surrogate,
 * cut short). */
int pst_utf8_bytes(const char *at);
/* Makes every byte that is not part of a character a question mark. */
void pst_utf8_clean(char *text);
#endif
