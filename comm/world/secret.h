/* What keeps strangers out of a job: random numbers, and proofs of knowing the job's secret that do
 * not show it. */
#ifndef PST_COMM_WORLD_SECRET_H
#define PST_COMM_WORLD_SECRET_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

enum { PST_SECRET_NONCE = 32, PST_SECRET_PROOF = 32, PST_SECRET_LEAST = 16 };

/* Unpredictable bytes from the system. ENOMEM when it has none. Any thread. */
pst_status pst_secret_random(void *out, size_t bytes);

/* What a proof is bound to: a purpose, both ends' fresh nonces, and two numbers. */
typedef struct {
    const char *purpose;
    const uint8_t *first, *second; /* [PST_SECRET_NONCE] */
    uint32_t a, b;
} pst_secret_claim;
/* The proof that whoever made it knows `secret`: HMAC-SHA256 (RFC 2104) over the claim. ENOMEM. Any
 * thread. */
pst_status pst_secret_prove(const char *secret, const pst_secret_claim *claim,
                            uint8_t proof[PST_SECRET_PROOF]);
/* 1 when two proofs are equal; takes the same time wherever they differ. */
int pst_secret_equal(const uint8_t a[PST_SECRET_PROOF], const uint8_t b[PST_SECRET_PROOF]);
#endif
