/* See utf8.h. */
#include "base/utf8.h"

int pst_utf8_bytes(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    int n = *at < 0x80                  ? 1
            : *at >= 0xc2 && *at < 0xe0 ? 2
            : *at >= 0xe0 && *at < 0xf0 ? 3
            : *at >= 0xf0 && *at < 0xf5 ? 4
                                        : 0;
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
