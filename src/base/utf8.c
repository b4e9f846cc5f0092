/* See utf8.h. */
#include "base/utf8.h"

int pst_utf8_bytes(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    int n = 0;
    if (*at < 0x80) n = 1;
    else if (*at >= 0xc2 && *at < 0xe0) n = 2;
    else if (*at >= 0xe0 && *at < 0xf0) n = 3;
    else if (*at >= 0xf0 && *at < 0xf5) n = 4;
    for (int i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    int overlong = (*at == 0xe0 && at[1] < 0xa0) || (*at == 0xf0 && at[1] < 0x90);
    int surrogate = *at == 0xed && at[1] >= 0xa0, beyond = *at == 0xf4 && at[1] >= 0x90;
    return overlong || surrogate || beyond ? 0 : n;
}

void pst_utf8_clean(char *text) {
    while (*text) {
        int n = pst_utf8_bytes(text);
        if (!n) *text = '?';
        text += n ? n : 1;
    }
}
