/* See hostfile.h. */
#include "comm/launch/hostfile.h"
#include "base/clock.h"
#include "base/limit.h"
#include "comm/world/tcp.h"
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SLOTS = 65535, RESOLVE_S = 8 };

/* --- reading ---------------------------------------------------------------------------------- */

static pst_status read_slots(const pst_hosts *h, uint32_t line, const char *word, uint32_t *slots) {
    char *end;
    if (strncmp(word, "slots=", 6))
        return pst_fail(PST_EINPUT, "%s:%u: unexpected '%.40s'; expected HOST slots=N", h->path,
                        line, word);
    unsigned long n = strtoul(word + 6, &end, 10);
    if (word[6] < '0' || word[6] > '9' || *end || !n || n > MAX_SLOTS)
        return pst_fail(PST_EINPUT,
                        "%s:%u: unexpected '%.40s'; expected slots=N, with N from 1 to %d", h->path,
                        line, word, MAX_SLOTS);
    *slots = (uint32_t)n;
    return PST_OK;
}

static pst_status add_host(pst_hosts *h, uint32_t line, const char *name, uint32_t slots) {
    uint32_t i = 0;
    if (strlen(name) >= sizeof h->host->name || *name == '-')
        return pst_fail(PST_EINPUT, "%s:%u: '%.40s' is not a host name", h->path, line, name);
    while (i < h->n && strcmp(h->host[i].name, name)) i++;
    if (h->slots + slots > MAX_SLOTS)
        return pst_fail(PST_EINPUT, "%s:%u: more than %d slots in total", h->path, line, MAX_SLOTS);
    if (i == h->n) {
        pst_host *more = realloc(h->host, (h->n + 1) * sizeof *more);
        if (!more) return pst_fail(PST_ENOMEM, "no memory for the hosts of %s", h->path);
        h->host = more;
        more[h->n] = (pst_host){.line = line};
        snprintf(more[h->n++].name, sizeof more->name, "%s", name);
    }
    h->host[i].slots += slots;
    h->slots += slots;
    return PST_OK;
}

static pst_status read_line(pst_hosts *h, uint32_t line, char *text) {
    static const char blanks[] = " \t\r\n";
    char *rest;
    uint32_t slots = 1;
    text[strcspn(text, "#")] = 0;
    const char *name = strtok_r(text, blanks, &rest), *word;
    if (!name) return PST_OK;
    while ((word = strtok_r(NULL, blanks, &rest))) PST_TRY(read_slots(h, line, word, &slots));
    return add_host(h, line, name, slots);
}

pst_status pst_hosts_read(const char *path, pst_hosts *hosts) {
    pst_hosts h = {0};
    char *text = NULL;
    size_t room = 0;
    uint32_t line = 0;
    pst_status status = PST_OK;
    if (snprintf(h.path, sizeof h.path, "%s", path) >= (int)sizeof h.path)
        return pst_fail(PST_EINPUT, "the path of the host file, '%.60s...', is too long", path);
    FILE *f = fopen(path, "r");
    if (!f) return pst_fail(PST_EINPUT, "cannot read the host file %s: %s", path, strerror(errno));
    while (status == PST_OK && getline(&text, &room, f) >= 0) status = read_line(&h, ++line, text);
    if (status == PST_OK && ferror(f))
        status = pst_fail(PST_EINPUT, "cannot read the host file %s", path);
    if (status == PST_OK && !h.n)
        status = pst_fail(PST_EINPUT, "%s lists no host; expected lines HOST slots=N", path);
    free(text);
    fclose(f);
    if (status == PST_OK) *hosts = h;
    else pst_hosts_close(&h);
    return status;
}

void pst_hosts_close(pst_hosts *hosts) {
    free(hosts->host);
    *hosts = (pst_hosts){0};
}

/* --- addresses -------------------------------------------------------------------------------- */

static const char *without_user(const char *name) {
    const char *at = strchr(name, '@');
    return at ? at + 1 : name;
}

static socklen_t bytes_of(const struct sockaddr *a) {
    return a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static int is_mine(const char *address) {
    struct ifaddrs *list;
    char text[64];
    int mine = 0;
    if (getifaddrs(&list)) return 0;
    for (struct ifaddrs *i = list; i && !mine; i = i->ifa_next)
        if (i->ifa_addr &&
            (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6) &&
            !getnameinfo(i->ifa_addr, bytes_of(i->ifa_addr), text, sizeof text, NULL, 0,
                         NI_NUMERICHOST))
            mine = !strcmp(text, address);
    freeifaddrs(list);
    return mine;
}

/* The first address that is not loopback, else the first one. */
static pst_status take_address(const pst_hosts *h, pst_host *host, const struct addrinfo *list,
                               int several) {
    const struct addrinfo *a = list;
    while (a && pst_tcp_is_loopback(a->ai_addr)) a = a->ai_next;
    const struct addrinfo *chosen = a ? a : list;
    if (getnameinfo(chosen->ai_addr, chosen->ai_addrlen, host->address, sizeof host->address, NULL,
                    0, NI_NUMERICHOST))
        return pst_fail(PST_EINPUT, "%s:%u: host %s: unknown type of address", h->path, host->line,
                        host->name);
    if (!a && several)
        return pst_fail(
            PST_EINPUT,
            "%s:%u: host %s resolves to the loopback address %s, which other hosts cannot reach: "
            "give its network address (/etc/hosts often maps the name to 127.0.1.1)",
            h->path, host->line, host->name, host->address);
    host->is_here = !a || is_mine(host->address);
    return PST_OK;
}

static pst_status check_twice(const pst_hosts *h, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            if (!strcmp(h->host[i].address, h->host[j].address))
                return pst_fail(PST_EINPUT,
                                "%s:%u: host %s has the same address as %s in line %u (%s): list "
                                "the host once, with all slots",
                                h->path, h->host[i].line, h->host[i].name, h->host[j].name,
                                h->host[j].line, h->host[i].address);
    return PST_OK;
}

/* Names are resolved in parallel, with a time limit: a resolver may wait half a minute for its
 * server. Threads that still wait after the limit keep their data; the last user frees it. */
enum { RESOLVERS = 16, RESOLVER_STACK = 1 << 20 };

typedef struct {
    char name[sizeof((pst_host *)0)->name];
    struct addrinfo *found;
    int rc, over;
} lookup;

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t one_is_over;
    uint32_t n, next, users;
    lookup each[];
} lookups;

static void leave(lookups *l) {
    pthread_mutex_lock(&l->lock);
    int last = !--l->users;
    pthread_mutex_unlock(&l->lock);
    if (!last) return;
    for (uint32_t i = 0; i < l->n; i++)
        if (l->each[i].found) freeaddrinfo(l->each[i].found);
    pthread_cond_destroy(&l->one_is_over);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static void *look_up(void *arg) {
    lookups *l = arg;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    pthread_mutex_lock(&l->lock);
    while (l->next < l->n) {
        lookup *one = &l->each[l->next++];
        pthread_mutex_unlock(&l->lock);
        struct addrinfo *found = NULL;
        int rc = getaddrinfo(one->name, NULL, &hints, &found);
        pthread_mutex_lock(&l->lock);
        one->found = rc ? NULL : found;
        one->rc = rc;
        one->over = 1;
        pthread_cond_signal(&l->one_is_over);
    }
    pthread_mutex_unlock(&l->lock);
    leave(l);
    return NULL;
}

/* All signals are blocked in these threads: the launcher handles signals. */
static pst_status start_resolvers(lookups *l) {
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;
    int failed = 0;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, RESOLVER_STACK);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 0; i < RESOLVERS && i < l->n && !failed; i++) {
        pthread_mutex_lock(&l->lock);
        l->users++;
        pthread_mutex_unlock(&l->lock);
        if ((failed = pthread_create(&thread, &attr, look_up, l))) leave(l);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (!failed) return PST_OK;
    char limits[PST_LIMIT_TEXT];
    return pst_fail(PST_ENOMEM, "cannot start a thread that resolves host names: %s%s",
                    strerror(failed), pst_limit_of_threads(limits));
}

static pst_status wait_for(const pst_hosts *h, lookups *l) {
    uint64_t until = pst_monotonic_ns() + RESOLVE_S * UINT64_C(1000000000);
    struct timespec limit = {.tv_sec = (time_t)(until / 1000000000),
                             .tv_nsec = (long)(until % 1000000000)};
    for (uint32_t i = 0; i < l->n; i++) {
        int late = 0;
        pthread_mutex_lock(&l->lock);
        while (!l->each[i].over && !late)
            late = pthread_cond_clockwait(&l->one_is_over, &l->lock, CLOCK_MONOTONIC, &limit) ==
                   ETIMEDOUT;
        int over = l->each[i].over, rc = l->each[i].rc;
        pthread_mutex_unlock(&l->lock);
        if (!over)
            return pst_fail(PST_EINPUT,
                            "%s:%u: host %s: no answer from the name server within %d s", h->path,
                            h->host[i].line, h->host[i].name, RESOLVE_S);
        if (rc)
            return pst_fail(PST_EINPUT, "%s:%u: host %s has no address: %s", h->path,
                            h->host[i].line, h->host[i].name, gai_strerror(rc));
    }
    return PST_OK;
}

pst_status pst_hosts_resolve(pst_hosts *h, uint32_t n) {
    lookups *l = calloc(1, sizeof *l + n * sizeof *l->each);
    if (!l) return pst_fail(PST_ENOMEM, "no memory for %u hosts", n);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->one_is_over, NULL);
    l->n = n;
    l->users = 1;
    for (uint32_t i = 0; i < n; i++)
        snprintf(l->each[i].name, sizeof l->each[i].name, "%s", without_user(h->host[i].name));
    pst_status status = start_resolvers(l);
    if (status == PST_OK) status = wait_for(h, l);
    for (uint32_t i = 0; i < n && status == PST_OK; i++)
        status = take_address(h, &h->host[i], l->each[i].found, n > 1);
    leave(l);
    return status == PST_OK ? check_twice(h, n) : status;
}
