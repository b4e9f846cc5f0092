/* See encode_progress.h. */
#include "data/encode_progress.h"
#include "base/clock.h"
#include "base/log.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const uint64_t TERMINAL_NS = 200000000, LOG_NS = 5000000000;

void pst_encode_progress_open(pst_encode_progress *p, uint64_t total, uint64_t first, int shows) {
    p->total = total;
    p->at = p->first = first;
    p->printed_ns = p->start_ns = pst_monotonic_ns();
    p->shows = shows && pst_log_get_level() >= PST_LOG_INFO;
    p->terminal = isatty(STDERR_FILENO);
}

static void print(const pst_encode_progress *p, uint64_t at, uint64_t now) {
    double seconds = (double)(now - p->start_ns) * 1e-9, speed = (double)(at - p->first) / seconds;
    double left = speed > 0 ? (double)(p->total - at) / speed : 0;
    char line[128];
    int n = snprintf(line, sizeof line, "data: encoding: %.0f %%, %.1f MB/s, %.0f s left",
                     100.0 * (double)at / (double)p->total, speed * 1e-6, left);
    if (p->terminal) {
        dprintf(STDERR_FILENO, "\r\033[K%.*s", n, line);
        return;
    }
    pst_log(PST_LOG_INFO, "%s", line);
}

void pst_encode_progress_set(pst_encode_progress *p, uint64_t at) {
    uint64_t seen = p->at, now, last;
    if (!p->shows) return;
    if (at > p->total) at = p->total;
    while (at > seen && !atomic_compare_exchange_weak(&p->at, &seen, at)) {}
    now = pst_monotonic_ns();
    last = p->printed_ns;
    if (now - last < (p->terminal ? TERMINAL_NS : LOG_NS)) return;
    if (atomic_compare_exchange_strong(&p->printed_ns, &last, now)) print(p, p->at, now);
}

void pst_encode_progress_close(pst_encode_progress *p) {
    if (p->shows && p->terminal && p->printed_ns != p->start_ns) dprintf(STDERR_FILENO, "\r\033[K");
}

/* --- signals ---------------------------------------------------------------------------------- */

static const int numbers[3] = {SIGINT, SIGTERM, SIGHUP};
static volatile sig_atomic_t came;

static void on_signal(int number) { came = number; }

void pst_encode_signals_open(pst_encode_signals *s) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
    came = 0;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 3; i++) {
        sigaction(numbers[i], NULL, &s->before[i]);
        if (s->before[i].sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
    }
}

int pst_encode_signals_close(const pst_encode_signals *s, int *handled) {
    *handled = 0;
    for (int i = 0; i < 3; i++) {
        sigaction(numbers[i], &s->before[i], NULL);
        if (numbers[i] == came) *handled = s->before[i].sa_handler != SIG_DFL;
    }
    return came;
}

int pst_encode_signals_came(void) { return came; }
