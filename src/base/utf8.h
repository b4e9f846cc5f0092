/* Text from outside, such as file names, as UTF-8, which JSON and HTML require. */
#ifndef PST_BASE_UTF8_H
#define PST_BASE_UTF8_H

/* Number of bytes of the character that starts at `at`, 1 to 4; 0: not valid UTF-8 (overlong, a
 * surrogate, truncated). */
int pst_utf8_bytes(const char *at);
/* Replaces every byte that is not part of a valid character by a question mark. */
void pst_utf8_clean(char *text);
#endif
