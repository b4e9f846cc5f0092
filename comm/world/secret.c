/* See secret.h. */
#include "comm/world/secret.h"
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

pst_status pst_secret_random(void *out, size_t bytes) {
    uint8_t *at = out;
    while (bytes) {
        ssize_t n = getrandom(at, bytes, 0);
        if (n <= 0)
            return pst_fail(PST_ENOMEM, "the operating system provides no random numbers: %m");
        at += n;
        bytes -= (size_t)n;
    }
    return PST_OK;
}

static uint8_t *append(uint8_t *at, const void *data, size_t bytes) {
    memcpy(at, data, bytes);
    return at + bytes;
}

static uint8_t *append_number(uint8_t *at, uint32_t number) {
    for (int i = 0; i < 4; i++) *at++ = (uint8_t)(number >> 8 * i);
    return at;
}

pst_status pst_secret_prove(const char *secret, const pst_secret_claim *claim,
                            uint8_t proof[PST_SECRET_PROOF]) {
    uint8_t text[64 + 2 * PST_SECRET_NONCE + 8], *at = text;
    unsigned bytes = 0;
    /* with its terminating zero, so that no purpose is a prefix of another */
    at = append(at, claim->purpose, strnlen(claim->purpose, 63) + 1);
    at = append(at, claim->first, PST_SECRET_NONCE);
    at = append(at, claim->second, PST_SECRET_NONCE);
    at = append_number(append_number(at, claim->a), claim->b);
    if (!HMAC(EVP_sha256(), secret, (int)strlen(secret), text, (size_t)(at - text), proof,
              &bytes) ||
        bytes != PST_SECRET_PROOF)
        return pst_fail(PST_ENOMEM, "libcrypto cannot compute an HMAC");
    return PST_OK;
}

int pst_secret_equal(const uint8_t a[PST_SECRET_PROOF], const uint8_t b[PST_SECRET_PROOF]) {
    return CRYPTO_memcmp(a, b, PST_SECRET_PROOF) == 0;
}
