/* See events.h. The format: TFRecord framing as described in TensorFlow's
 * tensorflow/core/lib/io/record_writer.h (length, masked CRC of the length, data, masked CRC of
 * the data, all little endian) around the protocol buffers Event
 * (tensorflow/core/util/event.proto), Summary and SummaryMetadata (core/framework/summary.proto)
 * and TensorProto (core/framework/tensor.proto). The few fields needed are encoded here by hand,
 * with their numbers. */
#include "metrics/events.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 12, FOOTER = 4, TAG = 64, SCALAR = TAG + 16, FIXED = 128, PATH_BYTES = 1200 };
enum { VARINT = 0, DOUBLE = 1, BYTES = 2, FLOAT = 5 }; /* wire types of protocol buffers */

/* A record under construction: its bytes start after the space for the header. */
struct pst_events {
    int file;
    off_t end;       /* end of the last complete record */
    uint8_t *record; /* [capacity] */
    size_t used, capacity;
    char path[PATH_BYTES];
};

/* --- checksum --------------------------------------------------------------------------------- */

static uint32_t crc_table[256];

static void fill_crc_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
        crc_table[i] = crc;
    }
}

uint32_t pst_events_crc32c(const void *data, size_t bytes) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_crc_table);
    const uint8_t *at = data;
    uint32_t crc = UINT32_MAX;
    while (bytes--) crc = crc >> 8 ^ crc_table[(crc ^ *at++) & 255];
    return ~crc;
}

uint32_t pst_events_masked_crc(const void *data, size_t bytes) {
    uint32_t crc = pst_events_crc32c(data, bytes);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* --- protocol buffers ------------------------------------------------------------------------- */

/* Appends bytes; counts those that do not fit, so that write_record refuses the record. */
static void put(pst_events *e, const void *data, size_t bytes) {
    if (e->used + bytes <= e->capacity) memcpy(e->record + e->used, data, bytes);
    e->used += bytes;
}

static void put_little(pst_events *e, uint64_t value, int bytes) {
    uint8_t out[8];
    for (int i = 0; i < bytes; i++) out[i] = (uint8_t)(value >> 8 * i);
    put(e, out, (size_t)bytes);
}

static void put_varint(pst_events *e, uint64_t value) {
    for (; value > 127; value >>= 7) put_little(e, (value & 127) | 128, 1);
    put_little(e, value, 1);
}

static size_t varint_bytes(uint64_t value) {
    size_t n = 1;
    while (value >>= 7) n++;
    return n;
}

static void put_key(pst_events *e, uint32_t field, uint32_t wire_type) {
    put_varint(e, field << 3 | wire_type);
}

static void put_whole(pst_events *e, uint32_t field, uint64_t value) {
    put_key(e, field, VARINT);
    put_varint(e, value);
}

static void put_double(pst_events *e, uint32_t field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(e, field, DOUBLE);
    put_little(e, bits, 8);
}

static void put_float(pst_events *e, uint32_t field, double value) {
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    put_key(e, field, FLOAT);
    put_little(e, bits, 4);
}

/* The head of a message or string of `bytes` bytes, which follow. Field numbers are below 16, so
 * the key is one byte. */
static void put_head(pst_events *e, uint32_t field, size_t bytes) {
    put_key(e, field, BYTES);
    put_varint(e, bytes);
}

static size_t with_head(size_t bytes) { return 1 + varint_bytes(bytes) + bytes; }

static void put_text(pst_events *e, uint32_t field, const char *text) {
    put_head(e, field, strlen(text));
    put(e, text, strlen(text));
}

/* --- records ---------------------------------------------------------------------------------- */

/* Event {wall_time = 1, step = 2, ...} */
static void start_event(pst_events *e, uint64_t step) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    e->used = HEADER;
    put_double(e, 1, (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    put_whole(e, 2, step);
}

static pst_status fail(const pst_events *e, int error) {
    return pst_fail(PST_ENOMEM, "%s: %s", e->path, strerror(error));
}

/* Frames the record and writes it: the file gets all of it or nothing. */
static pst_status write_record(pst_events *e) {
    size_t bytes = e->used - HEADER, done = 0;
    if (e->used + FOOTER > e->capacity)
        return pst_fail(PST_EINTERNAL, "%s: a record of %zu bytes exceeds the buffer", e->path,
                        bytes);
    uint32_t crc = pst_events_masked_crc(e->record + HEADER, bytes);
    put_little(e, crc, 4);
    size_t total = e->used;
    e->used = 0;
    put_little(e, bytes, 8);
    put_little(e, pst_events_masked_crc(e->record, 8), 4);
    while (done < total) {
        ssize_t n = pwrite(e->file, e->record + done, total - done, e->end + (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            int error = n < 0 ? errno : ENOSPC;
            if (done && ftruncate(e->file, e->end) != 0)
                return fail(e, error); /* the next record overwrites it */
            return fail(e, error);
        }
        done += (size_t)n;
    }
    e->end += (off_t)total;
    return PST_OK;
}

/* The first records, which readers need: Event.file_version = 3, source_metadata = 10 {writer =
 * 1}; then session_log = 7 {status = 1: START}. With this version, a later START makes
 * TensorBoard drop this step and later ones from older files. */
static pst_status write_preamble(pst_events *e, uint64_t first_step) {
    static const char writer[] = "penstock";
    start_event(e, 0);
    put_text(e, 3, "brain.Event:2");
    put_head(e, 10, with_head(sizeof writer - 1));
    put_text(e, 1, writer);
    PST_TRY(write_record(e));
    start_event(e, first_step);
    put_head(e, 7, 2);
    put_whole(e, 1, 1);
    return write_record(e);
}

/* Summary.Value {tag = 1, metadata = 9 {plugin_data = 1 {plugin_name = 1}}, tensor = 8 {dtype =
 * 1: DT_STRING, tensor_shape = 2 {}, string_val = 8}}, with the text as a Markdown code block. */
static pst_status write_text(pst_events *e, uint64_t step, const char *tag, const char *text) {
    static const char plugin[] = "text", open[] = "```\n", close_[] = "\n```\n";
    size_t bytes = sizeof open - 1 + strlen(text) + sizeof close_ - 1,
           tensor = 4 + with_head(bytes);
    size_t metadata = with_head(with_head(sizeof plugin - 1));
    size_t value = with_head(strlen(tag)) + with_head(metadata) + with_head(tensor);
    start_event(e, step);
    put_head(e, 5, with_head(value));
    put_head(e, 1, value);
    put_text(e, 1, tag);
    put_head(e, 9, metadata);
    put_head(e, 1, with_head(sizeof plugin - 1));
    put_text(e, 1, plugin);
    put_head(e, 8, tensor);
    put_whole(e, 1, 7);
    put_head(e, 2, 0);
    put_head(e, 8, bytes);
    put(e, open, sizeof open - 1);
    put(e, text, strlen(text));
    put(e, close_, sizeof close_ - 1);
    return write_record(e);
}

static size_t tag_bytes(const char *tag) { return strnlen(tag, TAG - 1); }

/* Summary.Value {tag = 1, simple_value = 2} */
static size_t value_bytes(const pst_events_scalar *s) { return with_head(tag_bytes(s->tag)) + 5; }

pst_status pst_events_scalars(pst_events *e, uint64_t step, const pst_events_scalar *scalar,
                              uint32_t n) {
    size_t summary = 0;
    for (uint32_t i = 0; i < n; i++) summary += with_head(value_bytes(&scalar[i]));
    start_event(e, step);
    put_head(e, 5, summary);
    for (uint32_t i = 0; i < n; i++) {
        put_head(e, 1, value_bytes(&scalar[i]));
        put_head(e, 1, tag_bytes(scalar[i].tag));
        put(e, scalar[i].tag, tag_bytes(scalar[i].tag));
        put_float(e, 2, scalar[i].value);
    }
    return write_record(e);
}

/* --- the file --------------------------------------------------------------------------------- */

/* Readers take files in the order of their names, so a later file must sort after earlier ones:
 * its name has the next free second. */
static pst_status create(const char *folder, pst_events *e) {
    char host[65] = "localhost";
    time_t now = time(NULL);
    gethostname(host, sizeof host - 1);
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return pst_fail(PST_ENOMEM, "%s: %s", folder, strerror(errno));
    for (int k = 0; k < 1000; k++) {
        int used = snprintf(e->path, PATH_BYTES, "%s/events.out.tfevents.%010lld.%s", folder,
                            (long long)now + k, host);
        if (used >= PATH_BYTES)
            return pst_fail(PST_EINPUT, "the path '%.60s...' is too long", folder);
        e->file = open(e->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (e->file < 0 && errno != EEXIST) return fail(e, errno);
        if (e->file >= 0) return PST_OK;
    }
    return fail(e, EEXIST);
}

pst_status pst_events_open(const char *folder, uint64_t first_step, uint32_t most_scalars,
                           const char *tag, const char *text, pst_events **events) {
    size_t scalars = (size_t)most_scalars * SCALAR, longest = strlen(text) + strlen(tag);
    pst_events *e = calloc(1, sizeof *e);
    if (!e) return pst_fail(PST_ENOMEM, "no memory for event files");
    e->file = -1;
    e->capacity = HEADER + FOOTER + FIXED + (scalars > longest ? scalars : longest);
    e->record = malloc(e->capacity);
    pst_status status =
        e->record ? create(folder, e) : pst_fail(PST_ENOMEM, "no memory for event files");
    if (status == PST_OK) status = write_preamble(e, first_step);
    if (status == PST_OK) status = write_text(e, first_step ? first_step - 1 : 0, tag, text);
    if (status != PST_OK) {
        if (e->file >= 0) unlink(e->path);
        pst_events_close(e);
        return status;
    }
    *events = e;
    return PST_OK;
}

void pst_events_close(pst_events *e) {
    if (!e) return;
    if (e->file >= 0) close(e->file);
    free(e->record);
    free(e);
}
