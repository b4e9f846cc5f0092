/* Keeps other processes out of a job: random numbers, and proofs that a process knows the job's
 * secret, without sending the secret. */
#ifndef PST_COMM_WORLD_SECRET_H
#define PST_COMM_WORLD_SECRET_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

enum { PST_SECRET_NONCE = 32, PST_SECRET_PROOF = 32, PST_SECRET_MIN = 16 };

/* Fills `out` with random bytes from the operating system. ENOMEM: it provides none. Any thread. */
pst_status pst_secret_random(void *out, size_t bytes);

/* The statement that a proof authenticates: a purpose, fresh nonces of both ends, and two
 * numbers. */
typedef struct {
    const char *purpose;
    const uint8_t *first, *second; /* [PST_SECRET_NONCE] */
    uint32_t a, b;
} pst_secret_claim;
/* A proof of knowing `secret`: HMAC-SHA256 (RFC 2104) over the claim. ENOMEM. Any thread. */
pst_status pst_secret_prove(const char *secret, const pst_secret_claim *claim,
                            uint8_t proof[PST_SECRET_PROOF]);
/* 1: the proofs are equal. Takes constant time. */
int pst_secret_equal(const uint8_t a[PST_SECRET_PROOF], const uint8_t b[PST_SECRET_PROOF]);
#endif
