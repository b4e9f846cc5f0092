/* Event files: checksums against published values, framing and contents against a small decoder of
 * protocol buffers, the order of files, and a disk that is full for a while. */
#include "base/status.h"
#include "metrics/events.h"
#include "run/runs.h"
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <cmocka.h>

static void test_checksums(void **state) {
    (void)state;
    const uint8_t zeros[32] = {0}, length[8] = {24};
    uint8_t ones[32], up[32];
    for (int i = 0; i < 32; i++) {
        ones[i] = 0xff;
        up[i] = (uint8_t)i;
    }
    assert_int_equal(pst_events_crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(pst_events_crc32c(zeros, 32), 0x8a9136aa); /* these three: RFC 3720, B.4 */
    assert_int_equal(pst_events_crc32c(ones, 32), 0x62a8ab43);
    assert_int_equal(pst_events_crc32c(up, 32), 0x46dd794e);
    /* how event files of TensorFlow begin */
    assert_int_equal(pst_events_masked_crc(length, 8), 0x224b7fa3);
}

/* --- a decoder -------------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *at, *end;
} bytes;

static uint64_t little(const uint8_t *at, int n) {
    uint64_t value = 0;
    for (int i = 0; i < n; i++) value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static uint64_t varint(bytes *b) {
    uint64_t value = 0;
    for (int shift = 0; b->at < b->end; shift += 7) {
        value |= (uint64_t)(*b->at & 127) << shift;
        if (!(*b->at++ & 128)) return value;
    }
    fail_msg("a number without end");
    return 0;
}

/* The next field: its number, its bits (numbers) or its part (texts and messages). */
static uint32_t field(bytes *b, uint64_t *value, bytes *part) {
    uint64_t key = varint(b);
    size_t n = (key & 7) == 1 ? 8 : 4;
    switch (key & 7) {
    case 0: *value = varint(b); break;
    case 1:
    case 5:
        assert_true((size_t)(b->end - b->at) >= n);
        *value = little(b->at, (int)n);
        b->at += n;
        break;
    case 2:
        n = varint(b);
        assert_true((size_t)(b->end - b->at) >= n);
        *part = (bytes){b->at, b->at + n};
        b->at += n;
        break;
    default: fail_msg("wire type %d", (int)(key & 7));
    }
    return (uint32_t)(key >> 3);
}

static int is(bytes b, const char *text) {
    return (size_t)(b.end - b.at) == strlen(text) && !memcmp(b.at, text, strlen(text));
}

/* What the records of one file say. */
typedef struct {
    int records, versions, starts, values, texts;
    uint64_t start_step, last_step;
    float last;
} content;

static void read_value(bytes value, content *c) {
    uint64_t bits = 0;
    bytes part = {0};
    for (c->values++; value.at < value.end;) {
        uint32_t number = field(&value, &bits, &part);
        uint32_t narrow = (uint32_t)bits;
        if (number == 2) memcpy(&c->last, &narrow, 4);
        if (number == 8) c->texts++;
        assert_true(number != 1 || (part.end > part.at && part.end - part.at < 64));
    }
}

static void read_event(bytes event, content *c) {
    uint64_t bits = 0, step = 0;
    bytes part = {0};
    while (event.at < event.end) {
        uint32_t number = field(&event, &bits, &part);
        if (number == 2) c->last_step = step = bits;
        if (number == 3) c->versions += is(part, "brain.Event:2");
        if (number == 7) {
            c->starts++;
            c->start_step = step;
        }
        while (number == 5 && part.at < part.end) {
            bytes value = {0};
            assert_int_equal(field(&part, &bits, &value), 1);
            read_value(value, c);
        }
    }
}

/* Every record of the file; fails where framing or checksums are wrong. */
static content read_file(const char *path) {
    static uint8_t data[1 << 20];
    content c = {0};
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t size = fread(data, 1, sizeof data, f), at = 0;
    fclose(f);
    while (at < size) {
        assert_true(size - at >= 16);
        uint64_t n = little(data + at, 8);
        assert_int_equal(little(data + at + 8, 4), pst_events_masked_crc(data + at, 8));
        assert_true(n <= size - at - 16);
        assert_int_equal(little(data + at + 12 + n, 4), pst_events_masked_crc(data + at + 12, n));
        read_event((bytes){data + at + 12, data + at + 12 + n}, &c);
        at += 16 + n;
        c.records++;
    }
    return c;
}

/* Path of the k-th file of a folder, in the order of names; "" when there are fewer. */
static const char *file_of(const char *folder, int k) {
    static char path[900];
    struct dirent **entry = NULL;
    int n = scandir(folder, &entry, NULL, alphasort), files = 0;
    path[0] = 0;
    for (int i = 0; i < n; i++) {
        if (entry[i]->d_name[0] != '.' && files++ == k)
            snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    return path;
}

/* --- tests ------------------------------------------------------------------------------------ */

static void test_file(void **state) {
    (void)state;
    char folder[600];
    snprintf(folder, sizeof folder, "%s/tb", run_folder());
    const pst_events_scalar
        two[] = {{"loss/train", 2.5}, {"train/lr", 1e-3}},
        longest = {"a_tag_that_is_longer_than_sixty_three_bytes/is_cut_after_sixty_three_of_them",
                   7};
    pst_events *e = NULL;
    for (int k = 0; k < 3; k++) { /* within a second: names still ascend */
        assert_int_equal(
            pst_events_open(folder, (uint64_t)k * 100 + 1, 2, "run.yaml", "name: x\n", &e), PST_OK);
        for (uint64_t step = 1; step <= 50; step++)
            assert_int_equal(pst_events_scalars(e, (uint64_t)k * 100 + step, two, 2), PST_OK);
        assert_int_equal(pst_events_scalars(e, (uint64_t)1 << 40, &longest, 1), PST_OK);
        pst_events_close(e);
    }
    for (int k = 0; k < 3; k++) {
        content c = read_file(file_of(folder, k));
        assert_int_equal(c.records, 3 + 50 + 1);
        assert_true(c.versions == 1 && c.starts == 1 && c.texts == 1 && c.values == 1 + 100 + 1);
        assert_int_equal(c.start_step, k * 100 + 1);
        assert_true(c.last_step == (uint64_t)1 << 40 && c.last == 7.0f);
    }
    assert_string_equal(file_of(folder, 3), "");
}

static void limit_files(rlim_t most) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A record that does not fit leaves no half of itself behind, and the next one that fits
 * follows. */
static void test_full_disk(void **state) {
    (void)state;
    char folder[600];
    const pst_events_scalar one = {"loss/train", 2.5};
    pst_events *e = NULL;
    int written = 0, refused = 0;
    snprintf(folder, sizeof folder, "%s/full", run_folder());
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(pst_events_open(folder, 1, 1, "run.yaml", "name: x\n", &e), PST_OK);
    limit_files(1000);
    for (uint64_t step = 1; step <= 40; step++) {
        pst_status status = pst_events_scalars(e, step, &one, 1);
        assert_true(status == PST_OK || status == PST_ENOMEM);
        written += status == PST_OK;
        refused += status != PST_OK;
    }
    limit_files(RLIM_INFINITY);
    assert_true(written && refused);
    assert_int_equal(read_file(file_of(folder, 0)).values, 1 + written);
    assert_int_equal(pst_events_scalars(e, 41, &one, 1), PST_OK);
    pst_events_close(e);
    content c = read_file(file_of(folder, 0));
    assert_true(c.values == 1 + written + 1 && c.last_step == 41);
}

static void test_no_folder(void **state) {
    (void)state;
    pst_events *e = NULL;
    assert_int_equal(pst_events_open("/proc/none/tb", 1, 1, "a", "b", &e), PST_ENOMEM);
    assert_true(e == NULL && strstr(pst_error(), "/proc/none/tb"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checksums), cmocka_unit_test(test_file),
        cmocka_unit_test(test_full_disk), cmocka_unit_test(test_no_folder)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    run_folder_remove();
    return failed;
}
