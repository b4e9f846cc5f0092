/* See stop.h. The handlers only record the request. */
#include "run/stop.h"
#include "base/clock.h"
#include "comm/launch/launch.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted, terminated, hung_up, save;
static _Atomic uint64_t stopped_ns, saved_ns;
static uint64_t done; /* requests that no longer count */
static volatile sig_atomic_t announces, announced, on_terminal;
static int depth; /* openings that are not closed */

static void on_save(int number) {
    (void)number;
    if (pst_monotonic_ns() - saved_ns >= PST_LAUNCH_SAME_NS) save = 1;
}

/* Prints the line once. again: the effect of another such signal. On a terminal the cursor is
 * behind ^C. */
static void say(const char *text, const char *again) {
    int error = errno;
    char line[128] = "";
    if (!announces || announced) return;
    announced = 1;
    if (on_terminal) strcat(line, "\n");
    strcat(line, text);
    strcat(line, again);
    strcat(line, "\n");
    ssize_t written = write(STDERR_FILENO, line, strlen(line));
    (void)written;
    errno = error;
}

static void on_quit(int number) { _exit(128 + number); }

static void on_hangup(int number) {
    (void)number;
    say("stopping after this step, saving", "");
    hung_up = 1;
}

static void on_stop(int number) {
    uint64_t now = pst_monotonic_ns();
    int again = interrupted || terminated;
    if (again && now - stopped_ns < PST_LAUNCH_SAME_NS) return;
    if (again) _exit(128 + number);
    stopped_ns = now;
    if (number == SIGTERM) terminated = 1;
    else interrupted = 1;
    say("stopping after this step", " (a second signal stops at once, without saving)");
}

void pst_stop_announce(void) { say("stopping after this step, saving", ""); }

/* A signal that is ignored when the program starts stays ignored: SIGHUP under nohup, SIGINT and
 * SIGQUIT in a shell's background. */
static void install(int number, const struct sigaction *action, struct sigaction *before) {
    sigaction(number, NULL, before);
    if (before->sa_handler != SIG_IGN) sigaction(number, action, NULL);
}

static void forget_requests(void) {
    interrupted = 0;
    terminated = 0;
    hung_up = 0;
    save = 0;
    done = 0;
    announced = 0;
}

/* The handlers have their own stack: oneDNN 2.6's sgemm keeps live data below the stack pointer,
 * which a handler's frame on the computing thread's stack would destroy. */
void pst_stop_open(pst_stop_before *before, int announce) {
    static char stack[64 << 10];
    const stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_ONSTACK | SA_RESTART};
    announces = announce;
    if (!depth++) forget_requests();
    on_terminal = isatty(STDERR_FILENO);
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGTERM);
    sigaddset(&action.sa_mask, SIGHUP);
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaltstack(&own, &before->stack);
    install(SIGINT, &action, &before->interrupt);
    install(SIGTERM, &action, &before->terminate);
    action.sa_handler = on_hangup;
    install(SIGHUP, &action, &before->hangup);
    action.sa_handler = on_quit;
    install(SIGQUIT, &action, &before->quit);
    action.sa_handler = on_save;
    sigaction(SIGUSR1, &action, &before->save);
}

void pst_stop_close(const pst_stop_before *before) {
    depth--;
    sigaction(SIGINT, &before->interrupt, NULL);
    sigaction(SIGTERM, &before->terminate, NULL);
    sigaction(SIGHUP, &before->hangup, NULL);
    sigaction(SIGUSR1, &before->save, NULL);
    sigaction(SIGQUIT, &before->quit, NULL);
    sigaltstack(&before->stack, NULL);
}

uint64_t pst_stop_requests(void) {
    uint64_t requests = 0;
    if (interrupted) requests |= PST_STOP_INTERRUPT;
    if (hung_up) requests |= PST_STOP_HANGUP;
    if (terminated) requests |= PST_STOP_TERMINATE;
    if (save) requests |= PST_STOP_SAVE;
    return requests & ~done;
}

void pst_stop_complete(int signal) {
    done |= pst_stop_requests() & ~(uint64_t)PST_STOP_SAVE;
    if (signal == SIGTERM) done |= PST_STOP_TERMINATE;
    if (signal == SIGHUP) done |= PST_STOP_HANGUP;
    if (signal == SIGINT) done |= PST_STOP_INTERRUPT;
}

void pst_stop_save_taken(void) {
    saved_ns = pst_monotonic_ns();
    save = 0;
}

/* A signal that batch systems treat as a failure has precedence. */
int pst_stop_signal(uint64_t requests) {
    if (requests & PST_STOP_TERMINATE) return SIGTERM;
    if (requests & PST_STOP_HANGUP) return SIGHUP;
    return requests & PST_STOP_INTERRUPT ? SIGINT : 0;
}
