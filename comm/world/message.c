/* See message.h. */
#include "comm/world/message.h"
#include "base/clock.h"
#include "comm/world/tcp.h"
#include <stdlib.h>
#include <string.h>

enum { HEAD_BYTES = 16, MAX_KEY = 256 };
static const uint64_t MAX_FENCE = UINT64_C(1) << 30;

static pst_status grow(pst_message *p, uint64_t bytes) {
    if (p->bytes + bytes > MAX_FENCE)
        return pst_fail(PST_EINPUT, "the values published between two fences exceed 1 GiB");
    if (p->bytes + bytes <= p->capacity) return PST_OK;
    uint64_t capacity = 2 * (p->bytes + bytes);
    uint8_t *at = realloc(p->at, capacity);
    if (!at)
        return pst_fail(PST_ENOMEM, "no memory for %llu bytes of published values",
                        (unsigned long long)capacity);
    p->at = at;
    p->capacity = capacity;
    return PST_OK;
}

pst_status pst_message_add(pst_message *p, uint32_t rank, const char *key, const void *value,
                           uint64_t bytes) {
    uint32_t length = (uint32_t)strlen(key);
    if (length >= MAX_KEY)
        return pst_fail(PST_EINTERNAL,
                        "the key of a published value has %u characters; expected at most 255",
                        length);
    PST_TRY(grow(p, HEAD_BYTES + length + bytes));
    uint8_t *at = p->at + p->bytes;
    memcpy(at, &rank, 4);
    memcpy(at + 4, &length, 4);
    memcpy(at + 8, &bytes, 8);
    memcpy(at + HEAD_BYTES, key, length);
    if (bytes) memcpy(at + HEAD_BYTES + length, value, bytes);
    p->bytes += HEAD_BYTES + length + bytes;
    return PST_OK;
}

pst_status pst_message_open(const pst_message *p, uint32_t from, uint32_t size, pst_store *store) {
    for (uint64_t i = 0; i < p->bytes;) {
        uint32_t rank, length;
        uint64_t bytes;
        char key[MAX_KEY];
        if (p->bytes - i < HEAD_BYTES)
            return pst_fail(PST_EINTERNAL, "a fence received a truncated message");
        memcpy(&rank, p->at + i, 4);
        memcpy(&length, p->at + i + 4, 4);
        memcpy(&bytes, p->at + i + 8, 8);
        i += HEAD_BYTES;
        if (length >= MAX_KEY || length > p->bytes - i || bytes > p->bytes - i - length ||
            rank >= size || (from != UINT32_MAX && rank != from))
            return pst_fail(PST_EINTERNAL, "a fence received a malformed message");
        memcpy(key, p->at + i, length);
        key[length] = 0;
        PST_TRY(pst_store_put(store, rank, key, p->at + i + length, bytes));
        i += length + bytes;
    }
    return PST_OK;
}

pst_status pst_message_append(pst_message *p, const pst_message *other) {
    PST_TRY(grow(p, other->bytes));
    if (other->bytes) memcpy(p->at + p->bytes, other->at, other->bytes);
    p->bytes += other->bytes;
    return PST_OK;
}

pst_status pst_message_write(const pst_message *p, int fd) {
    PST_TRY(pst_tcp_write(fd, &p->bytes, sizeof p->bytes, PST_NEVER));
    return pst_tcp_write(fd, p->at, p->bytes, PST_NEVER);
}

pst_status pst_message_read(pst_message *p, int fd) {
    uint64_t bytes;
    PST_TRY(pst_tcp_read(fd, &bytes, sizeof bytes, PST_NEVER));
    if (bytes & PST_MESSAGE_LEAVE) return pst_fail(PST_EPEER, "it has left the job");
    if (bytes > MAX_FENCE) return pst_fail(PST_EINTERNAL, "a fence received a malformed message");
    PST_TRY(grow(p, bytes));
    PST_TRY(pst_tcp_read(fd, p->at + p->bytes, bytes, PST_NEVER));
    p->bytes += bytes;
    return PST_OK;
}

void pst_message_clear(pst_message *p) {
    free(p->at);
    *p = (pst_message){0};
}
