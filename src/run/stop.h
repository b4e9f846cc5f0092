/* Signals as requests to the training run in this process: SIGINT, SIGTERM and SIGHUP: save and
 * stop; SIGUSR1: save and continue; SIGQUIT: end at once. The ranks agree on requests with the
 * reports of a step (step.c), and within a validation (feed.c). */
#ifndef PST_RUN_STOP_H
#define PST_RUN_STOP_H
#include <signal.h>
#include <stdint.h>

/* Requests, joined by |. */
enum { PST_STOP_INTERRUPT = 1, PST_STOP_HANGUP = 2, PST_STOP_TERMINATE = 4, PST_STOP_SAVE = 8 };

/* The signal handlers that the program had before. */
typedef struct {
    struct sigaction interrupt, terminate, hangup, save, quit;
    stack_t stack;
} pst_stop_before;

/* Installs the handlers. announce: the first signal that stops the run writes one line on stderr. A
 * second SIGINT or SIGTERM ends the process at once, with status 128 + its number; another SIGHUP
 * does not, because a terminal that closes sends several. A signal that is ignored stays ignored
 * (SIGHUP under nohup, SIGINT and SIGQUIT in a shell's background). */
void pst_stop_open(pst_stop_before *before, int announce);
/* Restores the handlers. */
void pst_stop_close(const pst_stop_before *before);
/* Writes that line when another rank received the signal, unless it was written before. */
void pst_stop_announce(void);

/* The requests that this process has received and that still count. */
uint64_t pst_stop_requests(void);
/* Call it when all steps are done. The run is complete, so requests to stop no longer count: those
 * received so far, and further ones of `signal`, by which a rank was asked to stop in the last step
 * (0: none). */
void pst_stop_complete(int signal);
/* Call it when all ranks know of a request to save. Requests that come at the same moment are the
 * same one. */
void pst_stop_save_taken(void);
/* The signal by which the run stops, of all ranks' requests; 0: it goes on. */
int pst_stop_signal(uint64_t requests);
#endif
