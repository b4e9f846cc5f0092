/* Which of UCX's transports are used, from what UCX says of machines with and without RDMA, and how
 * ranks of several hosts agree. The texts have the form of ucp_context_print_info; the devices are
 * made up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "comm/transport/ucx_choose.h"
#include "comm/transport/version.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD                                                                                       \
    "#\n# UCP context\n#\n#     component 0  :  self\n#     component 1  :  tcp\n#     component " \
    "4  :  ib\n#\n"
static const char ethernet[] = HEAD "#            md 0  :  component 0  self \n#\n"
                                    "#      resource 0  :  md 0  dev 0  flags -- self/memory\n"
                                    "#      resource 1  :  md 1  dev 1  flags -- tcp/lo\n"
                                    "#      resource 2  :  md 1  dev 2  flags -- tcp/eth0\n"
                                    "#      resource 3  :  md 3  dev 0  flags -- "
                                    "posix/memory\n#\n# memory: 1.0MB, file descriptors: 2\n#\n";
static const char mlx5[] = HEAD "#      resource 0  :  md 0  dev 0  flags -- self/memory\n"
                                "#      resource 1  :  md 1  dev 1  flags -- tcp/ib0\n"
                                "#      resource 2  :  md 4  dev 2  flags -- dc_mlx5/mlx5_0:1\n"
                                "#      resource 3  :  md 4  dev 2  flags -- rc_verbs/mlx5_0:1\n"
                                "#      resource 4  :  md 4  dev 2  flags -- rc_mlx5/mlx5_0:1\n"
                                "#      resource 5  :  md 4  dev 3  flags -- rc_mlx5/mlx5_1:1\n"
                                "#      resource 6  :  md 4  dev 2  flags a- ud_mlx5/mlx5_0:1\n"
                                "#      resource 7  :  md 6  dev 4  flags -s rdmacm/sockaddr\n#\n";
static const char verbs[] = "#      resource 0  :  md 4  dev 2  flags -- rc_verbs/rxe0:1\n"
                            "#      resource 1  :  md 4  dev 2  flags -- ud_verbs/rxe0:1\n";
static const char datagrams[] = "#      resource 10 :  md 4  dev 2  flags -- ud_verbs/rdmap0s6:1\n";

static pst_ucx_rdma of(const char *info, int locked) {
    char resources[1024];
    pst_ucx_rdma out;
    pst_ucx_resources_of(info, resources, sizeof resources);
    pst_ucx_rdma_of(resources, locked, &out);
    return out;
}

static void the_list_is_read(void **state) {
    char text[256], little[24];
    (void)state;
    pst_ucx_resources_of(ethernet, text, sizeof text);
    assert_string_equal(text, "self/memory tcp/lo tcp/eth0 posix/memory");
    pst_ucx_resources_of(mlx5, text, sizeof text);
    assert_non_null(strstr(text, " ud_mlx5/mlx5_0:1 rdmacm/sockaddr"));
    pst_ucx_resources_of(ethernet, little, sizeof little);
    assert_int_equal(strlen(little), sizeof little - 1);
    pst_ucx_resources_of("", text, sizeof text);
    assert_string_equal(text, "");
    pst_ucx_resources_of("#      resource 0  :  md 4 flags", text, sizeof text);
    assert_string_equal(text, "");
}

static void rdma_is_found(void **state) {
    (void)state;
    pst_ucx_rdma r = of(mlx5, 1);
    assert_int_equal(r.kinds, PST_UCX_RC | PST_UCX_DC | PST_UCX_UD);
    assert_string_equal(r.device, "mlx5_0:1");
    r = of(verbs, 1);
    assert_int_equal(r.kinds, PST_UCX_RC | PST_UCX_UD);
    assert_string_equal(r.device, "rxe0:1");
    r = of(ethernet, 1);
    assert_int_equal(r.kinds, 0);
    assert_string_equal(r.why, "UCX finds no InfiniBand or RoCE device");
    assert_int_equal(of(datagrams, 1).kinds, 0); /* nothing reliable */
    r = of(mlx5, 0);
    assert_int_equal(r.kinds, 0);
    assert_non_null(strstr(r.why, "mlx5_0:1 needs locked memory; set ulimit -l unlimited"));
}

static void expect(int local, uint32_t rdma, int cuda, const char *wanted) {
    char text[64];
    pst_ucx_transports(local, rdma, cuda, text, sizeof text);
    assert_string_equal(text, wanted);
}

static void tcp_alone_is_known(void **state) {
    (void)state;
    static const char *const tcp[] = {"tcp", "tcp,self,posix,cma", "self,tcp,cuda"};
    static const char *const rdma[] = {"rc,tcp,self", "dc_x,tcp",   "ud_mlx5,tcp", "ib,tcp",
                                       "all",         "^rc,ud,tcp", "posix,self",  ""};
    for (size_t i = 0; i < sizeof tcp / sizeof *tcp; i++) assert_true(pst_ucx_only_tcp(tcp[i]));
    for (size_t i = 0; i < sizeof rdma / sizeof *rdma; i++) assert_false(pst_ucx_only_tcp(rdma[i]));
}

static void transports_follow(void **state) {
    (void)state;
    expect(1, PST_UCX_RC, 0, "posix,self,cma");
    expect(1, 0, 1, "posix,self,cma,cuda");
    expect(0, 0, 0, "tcp,self,posix,cma");
    expect(0, PST_UCX_RC | PST_UCX_DC | PST_UCX_UD, 1, "rc,dc,ud,tcp,self,posix,cma,cuda");
    expect(0, PST_UCX_RC | PST_UCX_UD, 0, "rc,ud,tcp,self,posix,cma");
}

/* --- several hosts ---------------------------------------------------------------------------- */

enum { RANKS = 3, BYTES = 512 };

/* All ranks' values, each put by a world of its own before the first one asks. */
static struct {
    char value[RANKS][BYTES];
    size_t bytes[RANKS];
} board;

static pst_status fake_put(pst_world *w, const char *key, const void *value, size_t bytes) {
    (void)key;
    assert_true(bytes <= BYTES);
    memcpy(board.value[w->rank], value, bytes);
    board.bytes[w->rank] = bytes;
    return PST_OK;
}

static pst_status fake_get(pst_world *w, uint32_t rank, const char *key, void **value,
                           size_t *bytes) {
    (void)w;
    (void)key;
    *value = malloc(BYTES);
    assert_non_null(*value);
    memcpy(*value, board.value[rank], *bytes = board.bytes[rank]);
    return PST_OK;
}

static pst_status fake_fence(pst_world *w) {
    (void)w;
    return PST_OK;
}

static const pst_world_ops fake = {
    .name = "fake", .put = fake_put, .get = fake_get, .fence = fake_fence};

/* What rank 0 agrees on with the others, who have said theirs already; what they hear does not
 * count. */
static uint32_t agree(const pst_ucx_rdma has[RANKS], char why[PST_UCX_WHY]) {
    uint32_t common = 99;
    for (uint32_t r = RANKS; r-- > 0;) {
        pst_world w = {.ops = &fake, .rank = r, .size = RANKS, .local_size = 1};
        snprintf(w.host, sizeof w.host, "node%u", r);
        pst_status status = pst_ucx_agree(&w, &has[r], &common, why);
        if (r == 0) assert_int_equal(status, PST_OK);
    }
    return common;
}

static void all_have_it_or_none_uses_it(void **state) {
    char why[PST_UCX_WHY];
    const pst_ucx_rdma ib = of(mlx5, 1), soft = of(verbs, 1), none = of(ethernet, 1);
    const pst_ucx_rdma given = {.kinds = PST_UCX_USER_TLS, .why = "UCX_TLS=tcp"};
    (void)state;
    assert_int_equal(agree((const pst_ucx_rdma[]){ib, ib, ib}, why),
                     PST_UCX_RC | PST_UCX_DC | PST_UCX_UD);
    assert_string_equal(why, "all ranks have RDMA; this rank uses mlx5_0:1");
    assert_int_equal(agree((const pst_ucx_rdma[]){ib, soft, ib}, why), PST_UCX_RC | PST_UCX_UD);
    assert_int_equal(agree((const pst_ucx_rdma[]){ib, ib, none}, why), 0);
    assert_string_equal(why, "rank 2 on node2: UCX finds no InfiniBand or RoCE device");
    assert_int_equal(agree((const pst_ucx_rdma[]){ib, of(mlx5, 0), ib}, why), 0);
    assert_non_null(strstr(why, "rank 1 on node1: RDMA on mlx5_0:1 needs locked memory"));
    assert_int_equal(agree((const pst_ucx_rdma[]){ib, given, ib}, why),
                     PST_UCX_RC | PST_UCX_DC | PST_UCX_UD);
    agree((const pst_ucx_rdma[]){given, ib, ib}, why);
    assert_string_equal(why, "UCX_TLS=tcp");
}

/* Here, with whatever is here: what doctor says is what a job would choose. */
static void of_this_machine(void **state) {
    char text[512];
    pst_ucx_rdma here;
    (void)state;
    for (int is_empty = 0; is_empty < 2; is_empty++) { /* which is like unset */
        if (is_empty) setenv("UCX_TLS", "", 1);
        else unsetenv("UCX_TLS");
        pst_ucx_rdma_here(&here);
        assert_false(here.kinds & PST_UCX_USER_TLS);
        pst_comm_ucx_inter_host(text, sizeof text);
        assert_int_equal(strncmp(text, here.kinds ? "RDMA on " : "TCP: ", here.kinds ? 8 : 5), 0);
        pst_comm_ucx_resources(text, sizeof text);
        assert_non_null(strstr(text, "tcp/"));
    }
    setenv("UCX_TLS", "tcp,self", 1);
    pst_ucx_rdma_here(&here);
    assert_int_equal(here.kinds, PST_UCX_USER_TLS);
    pst_comm_ucx_inter_host(text, sizeof text);
    assert_string_equal(text, "set by the user: UCX_TLS=tcp,self");
    unsetenv("UCX_TLS");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_list_is_read),
                                       cmocka_unit_test(rdma_is_found),
                                       cmocka_unit_test(transports_follow),
                                       cmocka_unit_test(tcp_alone_is_known),
                                       cmocka_unit_test(all_have_it_or_none_uses_it),
                                       cmocka_unit_test(of_this_machine)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
